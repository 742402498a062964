# SPDX-License-Identifier: Apache-2.0
"""Made-up servers for the toy series: what each start yields, without a vLLM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.models.boots import BootFacts, Part
from harness.models.facts import Answer
from harness.models.profile import Profile, ServerSetup
from harness.workflows.verify import asked, executor
from harness.workflows.verify import run as workflow
from harness.workflows.verify.boots import Bench, Start
from tests.support.facts import SOURCE, boot, right_answers
from tests.support.toy import ALPHA, BETA

SETUP = ServerSetup.model_validate(
    {
        "name": "mtp",
        "context_tokens": 512,
        "speculation": {"method": "mtp", "num_speculative_tokens": 1},
        "accuracy": [
            {
                "name": "gsm8k",
                "fewshot": 2,
                "questions": {"full": 300, "quick": 32},
                "max_gen_toks": 32,
                "concurrency": 4,
            }
        ],
        "acceptance": [
            {
                "name": "free-text",
                "fewshot": 1,
                "prompts": {"full": 20, "quick": 20},
                "output_tokens": 24,
                "batch": 4,
            }
        ],
        "serving": [
            {
                "name": "short",
                "input_tokens": 10,
                "output_tokens": 10,
                "prompts": {"full": 32, "quick": 32},
                "concurrency": 4,
            }
        ],
    }
)
PROFILE = Profile.model_validate(
    {
        "name": "toy",
        "title": "A toy",
        "description": "A toy",
        "device": "cpu",
        "environment": "none",
        "runs_here": "anywhere",
        "model": {"kind": "local", "path": "m"},
        "served_name": "toy",
        "deadlines": {
            "start": 1,
            "stall": 1,
            "request": 1,
            "accuracy": 1,
            "serving": 1,
        },
        "gates": {"serving_accuses_only": True},
        "servers": [SETUP.model_dump()],
        "coverage": {"0001": {"runs": True, "note": "All of it is executed here."}},
    }
)


@dataclass
class Servers:
    """Made-up servers: what each start yields, and the starts that were made."""

    imported: tuple[str, ...] = (ALPHA, BETA)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    lines: dict[str, tuple[int, ...]] = field(
        default_factory=lambda: {ALPHA: tuple(range(1, 30)), BETA: tuple(range(1, 30))}
    )
    speeds: dict[str, float] = field(default_factory=dict)
    before: Callable[[Start], None] = lambda start: None
    made: list[str] = field(default_factory=list)

    def run(self, bench: Bench, start: Start, runner: object) -> BootFacts:
        self.made.append(start.label)
        self.before(start)
        answers = self.answers.get(start.state.label, right_answers())
        speed = self.speeds.get(start.state.label, 100.0)
        return boot(
            answers=answers if Part.ANSWERS in start.parts else None,
            accepted=[38] * 20 if Part.ANSWERS in start.parts else None,
            speed=speed + start.block if Part.TIMING in start.parts else None,
            imported=self.imported,
            lines=self.lines if Part.COVERAGE in start.parts else None,
        )


def install(monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Put made-up servers and environments in the place of the real ones."""
    made = Servers()
    environment = SimpleNamespace(
        fingerprint=lambda: {"environment": "none"}, packages={"lm-eval": "0"}
    )
    model = SimpleNamespace(digest="d", location="m", tokenizer=Path("m"))
    questions = SimpleNamespace(source=SOURCE)
    monkeypatch.setattr(workflow, "ensure", lambda *a, **k: environment)
    monkeypatch.setattr(workflow.models, "ensure", lambda *a, **k: model)
    monkeypatch.setattr(asked, "find", lambda *a, **k: questions)
    monkeypatch.setattr(asked, "few_shot_prompts", lambda *a, **k: ("p",) * 20)
    monkeypatch.setattr(workflow, "client_overlay", lambda *a, **k: None)
    monkeypatch.setattr(executor, "run_start", made.run)
    return made
