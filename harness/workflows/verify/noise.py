# SPDX-License-Identifier: Apache-2.0
"""The base compared with itself: what a comparison says where nothing differs."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.evidence.gates.serving import plan as expectation
from harness.evidence.statistics.blocks import mde, noise_floor
from harness.evidence.verdicts import combine
from harness.files import write_atomic
from harness.jobs import Jobs
from harness.models.base import load
from harness.models.gates import Gates
from harness.models.noise import Noise
from harness.models.signal import Exercise, Signal
from harness.models.summary import Machine
from harness.paths import Project
from harness.processes import sigterm_interrupts
from harness.report.noise import render
from harness.workflows.verify.executor import Executor
from harness.workflows.verify.judge import Arms, compare, speed_logs
from harness.workflows.verify.machine import machine
from harness.workflows.verify.results import portable
from harness.workflows.verify.schedule import answers_start, timing_blocks
from harness.workflows.verify.states import BASE, TreeState

TWIN = "base-again"
COMPARISON = "base against base"
SEED = 50260
"""First of the benchmark's seeds: no block of a verify run has the same prompts."""

NOISE = "noise.json"


def measure_noise(
    executor: Executor,
    base: TreeState,
    *,
    pairs: int,
    command: str,
    say: Callable[[str], None],
) -> Noise:
    """Serve the base as if it were two states, and compare them.

    Pairs of starts are judged as a verify run judges them; a "worse" here is a false
    alarm of this machine.
    """
    began = time.monotonic()
    bench = executor.bench
    profile = bench.profile
    spread = profile.gates.expected_spread
    say(expectation(pairs, spread).line(spread, profile.gates.throughput_floor))
    twin = replace(base, label=TWIN, twin=True)
    states = (base, twin)
    with sigterm_interrupts():
        with Jobs(profile.jobs) as jobs:
            for setup in profile.servers:
                for state in states:
                    start = answers_start(state, setup)
                    jobs.submit(executor.run, start)
        for setup in profile.servers:
            if setup.serving:
                for block in timing_blocks(states, setup, count=pairs, seed=SEED):
                    executor.run_block(block)
    arms = [
        Arms(
            COMPARISON,
            setup,
            # Speed takes part here whatever a profile lets it say of a patch.
            profile.gates.model_copy(update={"serving_accuses_only": False}),
            False,
            executor.note(BASE, setup.name),
            executor.note(TWIN, setup.name),
        )
        for setup in profile.servers
    ]
    signals = [signal for one in arms for signal in compare(one)]
    logs = {name: d for one in arms for name, d in speed_logs(one).items()}
    return Noise(
        tag=bench.upstream.tag,
        profile=profile.name,
        verdict=combine(signals, Exercise(changed=0, executed=0)).verdict,
        command=command,
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 1),
        machine=machine(),
        content=base.content,
        pairs=pairs,
        log_ratios=logs,
        floors=_floors(logs),
        finds=_finds(logs, profile.gates),
        signals=tuple(signals),
    )


def _floors(logs: dict[str, tuple[float, ...]]) -> dict[str, float]:
    return {
        name: math.expm1(noise_floor(d, len(d)).reach)
        for name, d in logs.items()
        if len(d) > 1
    }


def _finds(logs: dict[str, tuple[float, ...]], gates: Gates) -> dict[str, float]:
    found = {}
    for name, d in logs.items():
        if len(d) > 1:
            sd = noise_floor(d, len(d)).sd
            found[name] = math.expm1(mde(len(d), sd, alpha=0.05 / 3))
    return found


def noise_lines(noise: Noise) -> list[str]:
    """The answers, the noise floor and the smallest effect, for a terminal."""
    lines = [f"{s.name}: {_word(s)}: {s.reason}" for s in noise.signals]
    lines += [
        f"{name}: {noise.pairs} pairs differ by up to {floor:.1%} by chance, and would "
        f"show a harm of {noise.finds[name]:.1%} (power 80%)"
        for name, floor in noise.floors.items()
    ]
    return lines


def _word(signal: Signal) -> str:
    return signal.answer.value.replace("_", " ")


def folder(project: Project, tag: str, profile: str) -> Path:
    """Where the noise of a profile is kept."""
    return project.results / tag / "noise" / profile


def write_noise(project: Project, noise: Noise) -> Path:
    """Write the figures and the page; the folder they are in."""
    home = folder(project, noise.tag, noise.profile)
    text = noise.model_dump_json(indent=2) + "\n"
    write_atomic(home / NOISE, portable(text, project))
    write_atomic(home / "report.md", portable(render(noise), project))
    return home


def find_noise(project: Project, tag: str, profile: str, here: Machine) -> Noise | None:
    """The noise of this profile on a machine like this one, if it was measured."""
    path = folder(project, tag, profile) / NOISE
    if not path.exists():
        return None
    found = load(path, Noise)
    return found if found.fits(here) else None
