# SPDX-License-Identifier: Apache-2.0
"""One server start of one state, and all that is measured on it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import InfrastructureError
from harness.measure import (
    acceptance,
    accuracy,
    collectives,
    hidden_buffer,
    memory,
    metrics,
    serving,
)
from harness.measure.model import ReadyModel
from harness.measure.questions import Questions
from harness.measure.runner import Client
from harness.models.boots import BootFacts, Part
from harness.models.endpoint import Endpoint
from harness.models.facts import AcceptanceFacts, AccuracyFacts, ServingFacts
from harness.models.pin import Upstream
from harness.models.profile import Profile, ServerSetup
from harness.paths import Project
from harness.runtime.environment import Environment
from harness.runtime.overlay import Overlay, prepare
from harness.runtime.server import Server, ServerSpec, serve
from harness.workflows.verify.states import TreeState

COVERAGE_PLUGIN = ("harness_coverage", "harness.inside.coverage:plugin")
_LINES = "coverage"
_COLLECTIVES = "collectives"
_BUFFER = "hidden-buffer"
_COVERAGE_PROMPTS = 4
_COVERAGE_TOKENS = 4


@dataclass(frozen=True)
class Bench:
    """What is the same for every server start of a run."""

    project: Project
    upstream: Upstream
    profile: Profile
    quick: bool
    environment: Environment
    client: Client
    model: ReadyModel
    questions: dict[str, Questions]
    """By the name that the profile's cells use."""
    prompts: dict[tuple[str, str], tuple[str, ...]]
    """Prompts of each acceptance cell, by server setup and cell."""
    folder: Path
    """Gets logs and raw output of every start."""
    say: Callable[[str], None]


@dataclass(frozen=True)
class Start:
    """A server start that is wanted.

    Attributes:
        block: Number of the block of timing starts, from 1; 0 when there is none.
        seed: Chooses the benchmark's prompts; the same in all starts of a block.
        round: Names the series of blocks that a timing belongs to.
        peers: Contents of all states that the block times, this one included.
    """

    state: TreeState
    setup: ServerSetup
    parts: frozenset[Part]
    block: int = 0
    seed: int = 0
    round: str = ""
    peers: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        parts = "+".join(sorted(part.value for part in self.parts))
        block = f"-{self.round}-{self.block}" if self.block else ""
        return f"{self.state.label}-{self.setup.name}-{parts}{block}"


def run_start(bench: Bench, start: Start, runner: Overlay) -> BootFacts:
    """Start the server, prove what it runs, measure, and end it.

    Args:
        runner: The tree whose benchmark client is used: the same for all states.

    Raises:
        InfrastructureError: Anything could not be started, proved or measured.
    """
    folder = bench.folder / start.label
    overlay = state_overlay(bench, start.state, start.setup, start.parts)
    for stale in (_LINES, _COLLECTIVES, _BUFFER):
        shutil.rmtree(folder / stale, ignore_errors=True)
    spec = _spec(bench, start, folder / _LINES)
    bench.say(f"{start.label}: starting {bench.profile.served_name}")
    with serve(overlay, spec, folder) as server:
        bench.say(f"{start.label}: ready after {server.start_seconds:.0f} s")
        try:
            return _measured(_Measuring(bench, start, server, runner, folder))
        except InfrastructureError:
            server.check_after_failure()
            raise


def _measured(measuring: _Measuring) -> BootFacts:
    """All that the start is for; the server goes on running."""
    start, server, folder = measuring.start, measuring.server, measuring.folder
    # Timing comes first: what is measured after it can't disturb it.
    timed = measuring.serving() if Part.TIMING in start.parts else ()
    answers = Part.ANSWERS in start.parts
    accurate = measuring.accuracy() if answers else ()
    accepted = measuring.acceptance() if answers else ()
    held = steps = None
    counted = watched = None
    if answers:
        if _counts_collectives(start.setup):
            counted = collectives.settled(folder / _COLLECTIVES, start.setup.workers)
        if _watches_buffer(start.setup):
            watched = hidden_buffer.settled(folder / _BUFFER)
        snapshot = metrics.scrape(measuring.endpoint)
        steps = snapshot.steps
        held = memory.measure(server.processes(), snapshot, server.log_tail(4000))
    if Part.COVERAGE in start.parts:
        measuring.exercise()
    server.check()
    return BootFacts(
        proof=server.prove(start.state.blobs),
        start_seconds=server.start_seconds,
        accuracy=accurate,
        acceptance=accepted,
        memory=held,
        steps=steps,
        collectives=counted,
        hidden_buffer=watched,
        serving=timed,
        lines=_lines(folder / _LINES, server.overlay.tree)
        if Part.COVERAGE in start.parts
        else {},
    )


def client_overlay(bench: Bench, base: TreeState) -> Overlay:
    """The tree whose benchmark client is used for all states, without plugins."""
    return prepare(
        bench.project,
        base.worktree(bench.project),
        bench.environment,
        bench.upstream.version,
        label="client",
    )


def state_overlay(
    bench: Bench, state: TreeState, setup: ServerSetup, parts: frozenset[Part]
) -> Overlay:
    """The state's tree, ready to run with the plugins that the parts need."""
    plugins = dict(setup.plugins)
    if Part.COVERAGE in parts:
        plugins |= dict([COVERAGE_PLUGIN])
    return prepare(
        bench.project,
        state.worktree(bench.project),
        bench.environment,
        bench.upstream.version,
        label=f"{state.label}-{'coverage' if Part.COVERAGE in parts else setup.name}",
        plugins=plugins,
    )


def _spec(bench: Bench, start: Start, lines: Path) -> ServerSpec:
    setup, deadlines = start.setup, bench.profile.deadlines
    env = dict(setup.environment)
    if Part.COVERAGE in start.parts:
        tree = start.state.worktree(bench.project)
        env["HARNESS_COVERAGE_DIR"] = str(lines)
        env["HARNESS_COVERAGE_FILES"] = os.pathsep.join(
            str(tree / path) for path in start.state.blobs
        )
    if _counts_collectives(setup):
        env[collectives.FOLDER_VARIABLE] = str(
            bench.folder / start.label / _COLLECTIVES
        )
    if _watches_buffer(setup):
        env[hidden_buffer.FOLDER_VARIABLE] = str(bench.folder / start.label / _BUFFER)
    slow = 3 if Part.COVERAGE in start.parts else 1
    return replace(
        server_spec(bench.profile, setup, bench.model),
        env=env,
        start_deadline=deadlines.start * slow,
        stall_deadline=deadlines.stall * slow,
    )


def server_spec(profile: Profile, setup: ServerSetup, model: ReadyModel) -> ServerSpec:
    """How a profile serves its model in one of its setups."""
    return ServerSpec(
        model=Path(model.location),
        served_name=profile.served_name,
        arguments=(*setup.server_arguments(), *model.server_arguments),
        env=dict(setup.environment),
        start_deadline=profile.deadlines.start,
        stall_deadline=profile.deadlines.stall,
        apart=setup.workers if setup.uses_ray else 0,
    )


@dataclass(frozen=True)
class _Measuring:
    """The measurements on one ready server."""

    bench: Bench
    start: Start
    server: Server
    runner: Overlay
    folder: Path

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(
            base_url=self.server.base_url,
            api_key=self.server.api_key,
            model=self.server.model,
            tokenizer=self.bench.model.tokenizer,
            tokenizer_mode=self.bench.model.tokenizer_mode,
        )

    def accuracy(self) -> tuple[AccuracyFacts, ...]:
        found = []
        for cell in self.start.setup.accuracy:
            count = cell.questions.of(quick=self.bench.quick)
            self._announce(f"{cell.name}: {count} questions")
            found.append(
                accuracy.measure(
                    self.bench.client,
                    self.endpoint,
                    cell,
                    self.bench.questions[cell.data],
                    self.folder / f"accuracy-{cell.name}",
                    count=count,
                    deadlines=self.bench.profile.deadlines,
                    heartbeat=self.server.watch(self.bench.profile.deadlines.stall),
                )
            )
        return tuple(found)

    def acceptance(self) -> tuple[AcceptanceFacts, ...]:
        setup = self.start.setup
        found = []
        for cell in setup.acceptance if setup.speculation else ():
            prompts = self.bench.prompts[setup.name, cell.name]
            self._announce(f"{cell.name}: {len(prompts)} prompts")
            found.append(
                acceptance.measure(
                    self.endpoint,
                    cell,
                    prompts,
                    self.bench.questions[cell.data].source,
                    positions=_positions(setup),
                    request_timeout=self.bench.profile.deadlines.request,
                    heartbeat=self.server.watch(self.bench.profile.deadlines.stall),
                )
            )
        return tuple(found)

    def serving(self) -> tuple[ServingFacts, ...]:
        found = []
        for cell in self.start.setup.serving:
            prompts = cell.prompts.of(quick=self.bench.quick)
            self._announce(f"{cell.name}: {prompts} requests")
            found.append(
                serving.measure(
                    self.runner,
                    self.endpoint,
                    cell,
                    self.folder / f"serving-{cell.name}",
                    prompts=prompts,
                    seed=self.start.seed,
                    speculation=self.start.setup.speculation,
                    deadlines=self.bench.profile.deadlines,
                    heartbeat=self.server.watch(self.bench.profile.deadlines.stall),
                )
            )
        return tuple(found)

    def exercise(self) -> None:
        """A few completions, several at once, so that the traced code runs."""
        timeout = self.bench.profile.deadlines.request * 3
        self._announce(f"{_COVERAGE_PROMPTS} traced completions")
        with ThreadPoolExecutor(_COVERAGE_PROMPTS) as pool:
            jobs = [
                pool.submit(
                    self.server.complete,
                    f"{number} is",
                    max_tokens=_COVERAGE_TOKENS,
                    timeout=timeout,
                )
                for number in range(_COVERAGE_PROMPTS)
            ]
            for job in jobs:
                job.result().raise_for_status()

    def _announce(self, text: str) -> None:
        self.bench.say(f"{self.start.label}: {text}")


def _counts_collectives(setup: ServerSetup) -> bool:
    return collectives.PLUGIN[1] in setup.plugins.values()


def _watches_buffer(setup: ServerSetup) -> bool:
    return hidden_buffer.PLUGIN[1] in setup.plugins.values()


def _positions(setup: ServerSetup) -> int:
    return setup.speculation.num_speculative_tokens if setup.speculation else 0


def _lines(folder: Path, tree: Path) -> dict[str, tuple[int, ...]]:
    """Executed lines of all processes, by path in the tree."""
    found: dict[str, set[int]] = {}
    reports = sorted(folder.glob("coverage-*.json"))
    if not reports:
        raise InfrastructureError("no process reported its lines", where=str(folder))
    root = tree.resolve()
    for report in reports:
        for file, lines in json.loads(report.read_text(encoding="utf-8")).items():
            path = str(Path(file).relative_to(root))
            found.setdefault(path, set()).update(lines)
    return {path: tuple(sorted(lines)) for path, lines in sorted(found.items())}
