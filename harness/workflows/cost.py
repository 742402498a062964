# SPDX-License-Identifier: Apache-2.0
"""Time ``make verify``, and the same measurements made by hand, in one run.

By hand means what people do for lack of a tool: for every patch, start the tree before
it and the tree after it, and on each server run lm-eval and ``vllm bench serve``, with
the questions and requests of the profile, one after another. Less is measured that way
(no probes, acceptance, log-probabilities or executed lines). One start a side says
nothing of speed, so the time of as many pairs of starts as verify makes is taken too.
"""

from __future__ import annotations

import datetime
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import ExitCode, InfrastructureError
from harness.files import write_atomic
from harness.models.base import load
from harness.models.boots import Part
from harness.models.cost import ByHand, Cost, VerifyCost
from harness.models.profile import ServerSetup
from harness.models.series import Number
from harness.models.summary import Summary
from harness.paths import Project
from harness.readme import show
from harness.report.cost import readme_part, render
from harness.workflows.verify.boots import Start, run_start
from harness.workflows.verify.campaign import SEED
from harness.workflows.verify.executor import Executor
from harness.workflows.verify.machine import machine
from harness.workflows.verify.results import SUMMARY
from harness.workflows.verify.states import TreeState

RUNS = (
    ("first", ("--force",)),
    ("unchanged", ()),
    ("quick", ("--force", "--quick")),
)
"""Runs of verify by name: all is measured anew, nothing is, and the quick one."""

PART = "cost"
"""Name of its place in README."""

_FINE = (ExitCode.PASS, ExitCode.REGRESSED, ExitCode.INCONCLUSIVE)

Say = Callable[[str], None]


def measure_cost(
    executor: Executor,
    states: Sequence[TreeState],
    *,
    patches: Sequence[Number],
    command: str,
    say: Say,
) -> Cost:
    """Run everything; environments and model are at hand before the clock starts.

    Args:
        executor: What serves; its store is not asked.
        states: The base and the state after each patch.
        patches: Those that are served by hand.

    Raises:
        InfrastructureError: A run gave no verdict, or a server failed.
    """
    bench = executor.bench
    runs = [
        _verify(bench.project, bench.upstream.tag, bench.profile.name, run, say)
        for run in RUNS
    ]
    by_hand = [
        _by_hand(executor, state, patch, side, say)
        for before, after in itertools.pairwise(states)
        if (patch := after.label) in patches
        for side, state in (("before", before), ("after", after))
    ]
    return Cost(
        tag=bench.upstream.tag,
        profile=bench.profile.name,
        command=command,
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine(),
        patches=len(states) - 1,
        runs=tuple(runs),
        by_hand=tuple(by_hand),
    )


def _verify(
    project: Project, tag: str, profile: str, run: tuple[str, Sequence[str]], say: Say
) -> VerifyCost:
    name, options = run
    words = ["verify", "--profile", profile, *options]
    say(f"{name}: harness {' '.join(words)}")
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "harness", "--root", str(project.root), *words],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    seconds = time.monotonic() - began
    if done.returncode not in _FINE:
        raise InfrastructureError(
            f"ended with {done.returncode}: no time is worth keeping",
            where=f"harness {' '.join(words)}",
        )
    summary = load(project.results / tag / profile / SUMMARY, Summary)
    reused = sum(boot.reused for boot in summary.boots)
    say(f"{name}: {seconds:.0f} s")
    return VerifyCost(
        name=name,
        command=f"harness {' '.join(words)}",
        seconds=round(seconds, 1),
        exit_code=done.returncode,
        starts=len(summary.boots) - reused,
        reused=reused,
    )


def _by_hand(
    executor: Executor, state: TreeState, patch: Number, side: str, say: Say
) -> ByHand:
    seconds = repeated = started = 0.0
    profile = executor.bench.profile
    for setup in profile.servers:
        for number in range(1, profile.gates.pairs.full + 1):
            say(f"by hand: {side} {patch}, {setup.name}, start {number}")
            parts = {Part.ANSWERS, Part.TIMING} if number == 1 else {Part.TIMING}
            start = Start(
                state,
                _plain(setup),
                frozenset(parts),
                block=number,
                seed=SEED + number,
                round=f"by-hand-{patch}-{side}",
            )
            began = time.monotonic()
            facts = run_start(executor.bench, start, executor.runner)
            took = time.monotonic() - began
            if number == 1:
                seconds += took
                started += facts.start_seconds
            else:
                repeated += took
    return ByHand.model_validate(
        {
            "patch": patch,
            "side": side,
            "start_seconds": round(started, 1),
            "seconds": round(seconds, 1),
            "repeated_seconds": round(repeated, 1) if repeated else None,
        }
    )


def _plain(setup: ServerSetup) -> ServerSetup:
    """Accuracy and benchmark alone, and no log-probabilities."""
    cells = tuple(
        cell.model_copy(update={"logprobs": False}) for cell in setup.accuracy
    )
    return setup.model_copy(update={"acceptance": (), "accuracy": cells})


def write_cost(project: Project, cost: Cost) -> Path:
    """Write ``results/cost.json``, ``results/cost.md`` and README's part of it.

    Returns:
        The page's path.
    """
    text = json.dumps(cost.model_dump(mode="json"), indent=1) + "\n"
    write_atomic(project.results / "cost.json", text)
    write_atomic(project.results / "cost.md", render(cost))
    show(project.root / "README.md", PART, readme_part(cost))
    return project.results / "cost.md"
