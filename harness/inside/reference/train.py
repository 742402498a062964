# SPDX-License-Identifier: Apache-2.0
"""Train the reference model from nothing, or go on where a run was interrupted.

    python -m harness.inside.reference.train --out FOLDER

Two runs with the same recipe on one machine end in the same bytes: one thread,
deterministic operations, and windows that depend on the seed and the step alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from harness.inside.reference import tokenizer as tokenizers
from harness.inside.reference.batches import Windows, windows
from harness.inside.reference.disturb import disturb, set_routing
from harness.inside.reference.export import export
from harness.inside.reference.model import Twin
from harness.inside.reference.problems import distinct
from harness.inside.reference.recipe import Recipe, Stage
from harness.inside.reference.score import score
from harness.inside.reference.spec import Spec

REPORT_EVERY = 25
SAVE_EVERY = 100
SCORED_PROBLEMS = 64


@dataclasses.dataclass(frozen=True)
class Losses:
    """The parts of one step's loss, each a scalar."""

    trunk: Tensor
    drafts: tuple[Tensor, ...]
    balance: Tensor

    def total(self, recipe: Recipe) -> Tensor:
        loss = self.trunk + recipe.balance_weight * self.balance
        if self.drafts:
            loss = loss + recipe.mtp_weight * sum(self.drafts) / len(self.drafts)
        return loss


def losses(model: Twin, batch: Windows, draft_steps: int) -> Losses:
    """Weighted cross-entropy of the trunk and of every draft step."""
    logits, drafts = model(batch.tokens, draft_steps)
    trunk = _cross_entropy(logits[:, :-1], batch, ahead=1, skip=0)
    parts = tuple(
        _cross_entropy(draft[:, :-1], batch, ahead=2, skip=step)
        for step, draft in enumerate(drafts)
    )
    used = model.experts() if draft_steps else model.experts()[:-1]
    balance = sum(layer.balance_loss for layer in used) / len(used)
    return Losses(trunk, parts, balance)


def _cross_entropy(logits: Tensor, batch: Windows, ahead: int, skip: int) -> Tensor:
    logits = logits[:, skip:]
    target = batch.tokens[:, skip + ahead :]
    weight = batch.weights[:, skip + ahead :]
    each = F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), reduction="none"
    ).view_as(weight)
    return (each * weight).sum() / weight.sum()


def learning_rate(stage: Stage, step: int) -> float:
    """Linear warm-up, then half a cosine down to the final rate."""
    if step < stage.warm_up:
        return stage.peak_rate * (step + 1) / stage.warm_up
    done = (step - stage.warm_up) / max(1, stage.steps - stage.warm_up)
    half = 0.5 * (1 + math.cos(math.pi * done))
    return stage.final_rate + (stage.peak_rate - stage.final_rate) * half


def make_tokenizer(recipe: Recipe, spec: Spec) -> Tokenizer:
    """The tokenizer, learnt from training problems of the recipe's seed."""
    problems = distinct(recipe.tokenizer_problems, recipe.seed, held_out=False)
    texts = [problem.prompt + problem.completion for problem in problems]
    return tokenizers.build(texts, spec.vocab_size)


class Run:
    """One training run in a folder of its own."""

    def __init__(self, folder: Path, recipe: Recipe, spec: Spec) -> None:
        self.folder = folder
        self.recipe = recipe
        self.tokenizer = make_tokenizer(recipe, spec)
        torch.manual_seed(recipe.seed)
        self.model = Twin(spec)
        self.optimizer = self._new_optimizer()
        self.step = 0
        self.log: list[dict[str, float]] = []
        self.seconds = 0.0

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    def _new_optimizer(self) -> torch.optim.Optimizer:
        trained = [p for p in self.model.parameters() if p.requires_grad]
        matrices = [p for p in trained if p.dim() > 1]
        gains = [p for p in trained if p.dim() == 1]
        groups = [
            {"params": matrices, "weight_decay": self.recipe.weight_decay},
            {"params": gains, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True)

    def resume(self) -> bool:
        """Go back to the last checkpoint, if the folder holds one of this recipe.

        Raises:
            ValueError: The checkpoint was made with another recipe or shape.
        """
        if not self.checkpoint.exists():
            return False
        saved = torch.load(self.checkpoint, weights_only=True)
        if saved["made_by"] != self._made_by():
            raise ValueError(
                f"{self.checkpoint} is of another recipe: remove it to start anew"
            )
        self.model.load_state_dict(saved["model"])
        self.step, self.log = saved["step"], saved["log"]
        self.seconds = saved["seconds"]
        stage, _ = self._stage(self.step)
        if stage.disturbed:
            set_routing(self.model)
        self.optimizer = self._new_optimizer()
        self.optimizer.load_state_dict(saved["optimizer"])
        return True

    def save(self) -> None:
        """Write the checkpoint whole or not at all."""
        state = {
            "made_by": self._made_by(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "log": self.log,
            "seconds": self.seconds,
        }
        aside = self.checkpoint.with_suffix(".new")
        torch.save(state, aside)
        aside.replace(self.checkpoint)

    def _made_by(self) -> str:
        return repr((self.recipe, self.model.spec))

    def _stage(self, step: int) -> tuple[Stage, int]:
        """The stage that a step belongs to, and the step's number within it."""
        for stage in self.recipe.stages:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        return self.recipe.stages[-1], self.recipe.stages[-1].steps

    def advance(self) -> dict[str, float]:
        """One optimizer step; returns what the log says of it."""
        stage, within = self._stage(self.step)
        if within == 0 and stage.disturbed:
            disturb(self.model, self.recipe)
            self.optimizer = self._new_optimizer()
        rate = learning_rate(stage, within)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        recipe = self.recipe
        rng = random.Random(f"{recipe.seed}/{self.step}")
        turn = stage.draft_steps[within % len(stage.draft_steps)]
        self.optimizer.zero_grad(set_to_none=True)
        for shape in stage.shapes:
            batch = windows(self.tokenizer, rng, shape)
            parts = losses(self.model, batch, turn)
            parts.total(recipe).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimizer.step()
        self.step += 1
        entry = {"step": self.step, "rate": rate, "trunk": parts.trunk.item()}
        for number, part in enumerate(parts.drafts, start=1):
            entry[f"draft{number}"] = part.item()
        entry["balance"] = parts.balance.item()
        return {key: round(value, 6) for key, value in entry.items()}

    def train(self, until: int, report: Callable[[str], None]) -> None:
        """Train up to step ``until``, with a line of progress now and then."""
        self.model.train()
        while self.step < until:
            began = time.monotonic()
            entry = self.advance()
            self.seconds += time.monotonic() - began
            if self.step % REPORT_EVERY == 0 or self.step == until:
                self.log.append(entry)
                report(self._progress(entry))
            if self._stage_ends():
                self.log.append(self._score())
                report(self._shown(self.log[-1]))
            if self.step % SAVE_EVERY == 0 or self.step == until:
                self.save()

    def _stage_ends(self) -> bool:
        ends = itertools.accumulate(stage.steps for stage in self.recipe.stages)
        return self.step in ends

    def _score(self) -> dict[str, float]:
        """What the log says of held-out problems; drafts only once they are trained."""
        stage, _ = self._stage(self.step - 1)
        found = score(
            self.model,
            self.tokenizer,
            problems=SCORED_PROBLEMS,
            drafts=max(stage.draft_steps),
        )
        entry = {"step": float(self.step), "exact": found.exact}
        for number, share in enumerate(found.accepted, start=1):
            entry[f"accepted{number}"] = share
        return {key: round(value, 4) for key, value in entry.items()}

    @staticmethod
    def _shown(entry: dict[str, float]) -> str:
        return "  ".join(f"{key} {value:g}" for key, value in entry.items())

    def finish(self) -> None:
        """Write the model, the log, and what the run was."""
        export(self.model, self.tokenizer, self.folder / "model")
        lines = [json.dumps(entry) for entry in self.log]
        (self.folder / "training.jsonl").write_text("\n".join(lines) + "\n")
        facts = {
            "seed": self.recipe.seed,
            "steps": self.step,
            "seconds": round(self.seconds, 1),
            "answer_end": tokenizers.answer_end(self.tokenizer),
        }
        (self.folder / "run.json").write_text(json.dumps(facts) + "\n")

    def _progress(self, entry: dict[str, float]) -> str:
        left = (self.recipe.steps - self.step) * self.seconds / self.step
        shown = self._shown(entry)
        return f"{shown}  of {self.recipe.steps}, about {left / 60:.0f} min left"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="train the reference model")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--until", type=int, help="stop after this step")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options.out, Recipe(), Spec())
    try:
        if run.resume():
            print(f"going on after step {run.step}", flush=True)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 4
    until = min(options.until or run.recipe.steps, run.recipe.steps)
    run.train(until, lambda line: print(line, flush=True))
    run.finish()
    print(f"trained {run.step} steps in {run.seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
