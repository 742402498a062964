# SPDX-License-Identifier: Apache-2.0
"""Train the reference model in the measured environment and put it in its place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from harness import paths, processes
from harness.errors import InfrastructureError
from harness.files import sha256_file, write_atomic
from harness.inside.reference.problems import Problem, distinct
from harness.models.base import Model, load
from harness.models.reference import (
    LOG,
    MANIFEST,
    MODEL,
    PROBLEMS,
    ReferenceManifest,
    listed,
    read_checked,
)
from harness.paths import Project
from harness.runtime.environment import Environment
from harness.runtime.variables import child_environment

FOLDER = "reference-model"

PROGRAM = "harness.inside.reference.train"

TEST_PROBLEMS = 500
TRAIN_PROBLEMS = 200
"""Enough to draw the examples of a prompt from."""

PROBLEM_SEEDS = {"train": 1, "test": 2}

TRAINING_TIMEOUT = 6 * 3600.0
"""Seconds: twenty minutes on an idle core, hours on one that is shared."""

Progress = Callable[[str], None]


class Trained(Model):
    """What the training program says of a finished run, in ``run.json``."""

    seed: int
    steps: int
    seconds: float
    answer_end: int


def committed(project: Project) -> Path:
    """The folder of the reference model."""
    return project.configs / FOLDER


def train(
    project: Project, environment: Environment, *, anew: bool, progress: Progress
) -> ReferenceManifest:
    """Train the model, or finish an interrupted training, and install the result.

    Args:
        anew: Forget an interrupted training.

    Raises:
        InfrastructureError: The training program failed; names its last line.
    """
    run = project.build / FOLDER
    if anew:
        shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True, exist_ok=True)
    _run_training(environment, run, progress)
    made = _assemble(run, environment)
    return install(made, committed(project))


def install(made: Path, place: Path) -> ReferenceManifest:
    """Put a checked folder in the place of the committed one."""
    manifest = read_checked(made)
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    place.parent.mkdir(parents=True, exist_ok=True)
    made.rename(place)
    shutil.rmtree(old, ignore_errors=True)
    return manifest


def _run_training(environment: Environment, run: Path, progress: Progress) -> None:
    log = run / "training.log"
    log.unlink(missing_ok=True)
    variables = {
        **child_environment(),
        "PYTHONPATH": str(paths.default_root()),
        "OMP_NUM_THREADS": "1",
    }
    command = [str(environment.python), "-m", PROGRAM, "--out", str(run)]
    shown = 0

    def follow() -> None:
        nonlocal shown
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        for line in lines[shown:]:
            progress(line)
        shown = len(lines)

    done = processes.run(
        command, log=log, env=variables, timeout=TRAINING_TIMEOUT, heartbeat=follow
    )
    follow()
    done.check("training the reference model")


def _assemble(run: Path, environment: Environment) -> Path:
    """The finished folder, built beside the committed one's place."""
    trained = load(run / "run.json", Trained)
    made = run / "made"
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(run / MODEL, made / MODEL)
    for file in (made / MODEL).iterdir():
        file.chmod(0o644)
    shutil.copyfile(run / LOG, made / LOG)
    write_problems(made / PROBLEMS)
    manifest = ReferenceManifest(
        seed=trained.seed,
        steps=trained.steps,
        seconds=trained.seconds,
        answer_end=trained.answer_end,
        made_with=environment.fingerprint(),
        files={path: sha256_file(made / path) for path in listed(made)},
    )
    write_atomic(made / MANIFEST, manifest.model_dump_json(indent=1) + "\n")
    return made


def write_problems(folder: Path) -> None:
    """Write the problems for the examples, and the held-out ones, as jsonl."""
    train_side = distinct(TRAIN_PROBLEMS, PROBLEM_SEEDS["train"], held_out=False)
    test_side = distinct(TEST_PROBLEMS, PROBLEM_SEEDS["test"], held_out=True)
    shared = {p.question for p in train_side} & {p.question for p in test_side}
    if shared:
        raise InfrastructureError(f"{len(shared)} problems are on both sides")
    write_atomic(folder / "train.jsonl", _jsonl(train_side))
    write_atomic(folder / "test.jsonl", _jsonl(test_side))


def _jsonl(problems: list[Problem]) -> str:
    rows = ({"question": p.question, "answer": p.answer} for p in problems)
    return "".join(json.dumps(row) + "\n" for row in rows)
