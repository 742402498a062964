# SPDX-License-Identifier: Apache-2.0
"""Command lines go to parsing processes; here these are a few lines of Python."""

from __future__ import annotations

import copy
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfrastructureError
from harness.measure.model import described
from harness.measure.runner import Client
from harness.models.base import load, validate
from harness.models.profile import Profile
from harness.paths import default_root
from harness.runtime.environment import Environment
from harness.runtime.server import server_words
from harness.workflows.profile_check import (
    VLLM_MODULE,
    Fault,
    Place,
    check,
    lm_eval_lines,
    vllm_lines,
)
from harness.workflows.verify.boots import server_spec

PROFILES = default_root() / "configs" / "profiles"

REPORTS = """
import json, sys
lines = json.load(open(sys.argv[1]))
wrong = {fault!r}
faults = {{l["name"]: [{{"argument": w, "message": "is unknown"}} for w in l["words"]
           if w == wrong] for l in lines}}
json.dump(faults, open(sys.argv[2], "w"))
"""


@dataclass
class Script:
    """Stands for a tree that is ready to run."""

    code: str

    @property
    def env(self) -> dict[str, str]:
        return dict(os.environ)

    def command(self, module: str, *arguments: str) -> list[str]:
        assert module == VLLM_MODULE
        return [sys.executable, "-c", self.code, *arguments]


class ClientScript(Client):
    """Stands for lm-eval's environment."""

    def command(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-c", REPORTS.format(fault="none"), *arguments]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    tasks = tmp_path / "site" / "lm_eval" / "tasks" / "gsm8k"
    tasks.mkdir(parents=True)
    (tasks / "gsm8k.yaml").write_text("task: gsm8k\n")
    python = Path(sys.executable)
    environment = Environment("x", "y", python, "3", tmp_path / "site", {})
    return ClientScript(environment)


@pytest.fixture
def glm() -> Profile:
    return load(PROFILES / "glm-5.2.yaml", Profile)


def test_the_lines_are_the_ones_that_verify_runs(glm: Profile, tmp_path: Path) -> None:
    lines = list(vllm_lines(glm, tmp_path))
    first = next(line for line in lines if line.place.program == "vllm serve")
    setup = glm.servers[0]
    revised = glm.model.model_copy(update={"revision": "0" * 40})
    spec = server_spec(glm, setup, described(revised))
    assert list(first.words) == server_words(spec, 8000)
    assert first.words[:2] == ("serve", "zai-org/GLM-5.2-FP8")
    assert [line.place.cell for line in lines if line.place.server == "mtp"] == [
        "", "low", "high",
    ]  # fmt: skip
    bench = lines[1].words
    assert bench[:2] == ("bench", "serve")
    assert bench[bench.index("--max-concurrency") + 1] == "4"


def test_lm_eval_is_asked_for_the_whole_public_set(
    glm: Profile, client: Client, tmp_path: Path
) -> None:
    lines = list(lm_eval_lines(glm, client, tmp_path))
    assert [line.place.server for line in lines] == ["mtp", "mtp-v32"]
    words = lines[0].words
    assert words[words.index("--limit") + 1] == "1319"
    assert words[words.index("--num_fewshot") + 1] == "5"
    assert "max_gen_toks=8192" in words
    assert Path(words[words.index("--include_path") + 1]).is_dir()


def test_a_fault_names_profile_server_and_argument(
    glm: Profile, client: Client
) -> None:
    data: dict[str, Any] = copy.deepcopy(glm.model_dump(mode="json"))
    data["servers"][1]["arguments"].append("--wrong")
    profile = validate(data, Profile, where="x")
    tree = Script(REPORTS.format(fault="--wrong"))
    count, faults = check([profile], tree, client, say=lambda line: None)
    assert count == 3 + 6 + 2
    assert [fault.line() for fault in faults] == [
        "configs/profiles/glm-5.2.yaml: server mtp-v32: vllm serve: --wrong: "
        "is unknown (correct or remove it)"
    ]
    assert faults[0].plain()["server"] == "mtp-v32"


def test_a_cell_is_named_too() -> None:
    place = Place("cpu", "mtp", "lm-eval", "gsm8k")
    line = Fault(place, "score", "no filter x").line()
    assert line == (
        "configs/profiles/cpu.yaml: server mtp, cell gsm8k: lm-eval: score: "
        "no filter x (correct the cell's score)"
    )


@pytest.mark.parametrize("code", ["raise SystemExit(7)", "pass"])
def test_a_parsing_process_that_fails_is_no_fault_of_the_profile(
    glm: Profile, client: Client, code: str
) -> None:
    with pytest.raises(InfrastructureError, match="parsing command lines"):
        check([glm], Script(code), client, say=lambda line: None)
