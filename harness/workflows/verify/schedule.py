# SPDX-License-Identifier: Apache-2.0
"""Which server starts are made, in which order, and carrying them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.errors import HarnessError, InfrastructureError
from harness.models.boots import BootFacts, Part
from harness.models.profile import ServerSetup
from harness.models.summary import Boot
from harness.runtime.overlay import Overlay
from harness.workflows.verify.boots import Bench, Start, run_start
from harness.workflows.verify.judge import StateFacts
from harness.workflows.verify.states import QUICK, Comparison, Plan, TreeState
from harness.workflows.verify.store import Store, key


def first_start(
    state: TreeState, setup: ServerSetup, *, quick: bool, seed: int
) -> Start:
    """The start that measures what does not depend on the clock.

    A quick run times the same start; else its timing is worth nothing, because it is
    the first of its state, and is not taken.
    """
    if quick and setup.serving:
        parts = frozenset({Part.ANSWERS, Part.TIMING})
        return Start(state, setup, parts, 1, seed, QUICK)
    return Start(state, setup, frozenset({Part.ANSWERS}))


def timing_starts(
    comparison: Comparison, setup: ServerSetup, *, pairs: int, seed: int
) -> Iterator[Start]:
    """Pairs of starts in the order AB BA AB ...; each pair has its own prompts."""
    for number in range(1, pairs + 1):
        order = [comparison.before, comparison.after]
        if number % 2 == 0:
            order.reverse()
        for state in order:
            parts = frozenset({Part.TIMING})
            yield Start(state, setup, parts, number, seed + number, comparison.name)


def coverage_starts(plan: Plan, setup: ServerSetup) -> Iterator[Start]:
    """One traced start for each served state but the base."""
    for state in plan.served[1:]:
        yield Start(state, setup, frozenset({Part.COVERAGE}))


@dataclass
class Executor:
    """Carries out starts, keeps what they yield, and remembers what failed."""

    bench: Bench
    store: Store
    runner: Overlay
    boots: list[Boot] = field(default_factory=list)
    yielded: dict[str, BootFacts] = field(default_factory=dict)
    """Facts of each start, by the start's label."""

    def run(self, start: Start, note: StateFacts) -> BootFacts | None:
        """Carry out one start; None, and a note of the reason, if it failed."""
        name = key(self.bench, start)
        facts = self.store.get(name)
        reused = facts is not None
        failure: str | None = None
        if facts is None:
            try:
                facts = run_start(self.bench, start, self.runner)
            except InfrastructureError as error:
                failure = _one_line(error)
                self.bench.say(f"{start.label}: {failure}")
            else:
                self.store.put(name, facts)
        else:
            self.bench.say(f"{start.label}: reused from an earlier run")
        if facts is None:
            for part in start.parts:
                note.failures[part.value] = failure or "failed"
        else:
            self.yielded[start.label] = facts
            _file(start, facts, note)
        self.boots.append(_boot(start, facts, reused=reused, failure=failure))
        return facts


def _file(start: Start, facts: BootFacts, note: StateFacts) -> None:
    if Part.ANSWERS in start.parts:
        note.answers = facts
    if Part.TIMING in start.parts:
        note.timings[start.comparison, start.pair] = facts
    if Part.COVERAGE in start.parts:
        note.coverage = facts


def _boot(
    start: Start, facts: BootFacts | None, *, reused: bool, failure: str | None
) -> Boot:
    return Boot(
        state=start.state.label,
        server=start.setup.name,
        purpose=" and ".join(sorted(part.value for part in start.parts)),
        pair=start.pair,
        started=facts is not None,
        start_seconds=facts.start_seconds if facts else None,
        reused=reused,
        failure=failure,
        raw=(f"raw/{start.label}.json",) if facts else (),
    )


def _one_line(error: HarnessError) -> str:
    return " ".join(error.line().splitlines()[0].split())
