# SPDX-License-Identifier: Apache-2.0
"""Carries out server starts, or takes what an earlier run kept of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.errors import HarnessError, InfrastructureError
from harness.models.boots import BootFacts, Part
from harness.models.summary import Boot
from harness.runtime.overlay import Overlay
from harness.workflows.verify.boots import Bench, Start, run_start
from harness.workflows.verify.deaths import repeated
from harness.workflows.verify.judge import StateFacts
from harness.workflows.verify.schedule import Block
from harness.workflows.verify.store import Store, key


@dataclass
class Executor:
    """Carries out starts, keeps what they yield, and remembers what failed.

    ``facts`` is by the labels of state and server setup, ``yielded`` by the label of
    the start.
    """

    bench: Bench
    store: Store
    runner: Overlay
    facts: dict[tuple[str, str], StateFacts] = field(default_factory=dict)
    boots: list[Boot] = field(default_factory=list)
    yielded: dict[str, BootFacts] = field(default_factory=dict)

    def note(self, state: str, setup: str) -> StateFacts:
        """What is known of a state on a server setup so far."""
        return self.facts.setdefault((state, setup), StateFacts())

    def run(self, start: Start) -> BootFacts | None:
        """Carry out one start; None, and a note of the reason, if it failed."""
        return self._carry_out(start, self.store.get(key(self.bench, start)))

    def run_block(self, block: Block) -> None:
        """Time one block. It is taken from an earlier run whole or not at all: the
        two sides of a comparison were measured one after the other."""
        kept = [self.store.get(key(self.bench, start)) for start in block.starts]
        whole = all(facts is not None for facts in kept)
        for start, facts in zip(block.starts, kept, strict=True):
            self._carry_out(start, facts if whole else None)

    def _carry_out(self, start: Start, kept: BootFacts | None) -> BootFacts | None:
        note = self.note(start.state.label, start.setup.name)
        facts, failure = kept, None
        if kept is not None:
            self.bench.say(f"{start.label}: reused from an earlier run")
        else:
            try:
                facts = run_start(self.bench, start, self.runner)
            except InfrastructureError as error:
                failure = _one_line(error)
                self.bench.say(f"{start.label}: {failure}")
                if start.state.patches and Part.ANSWERS in start.parts:
                    note.death = repeated(error, lambda: self._again(start))
            else:
                self.store.put(key(self.bench, start), facts)
        if facts is None:
            for part in start.parts:
                note.failures[part.value] = failure or "failed"
        else:
            self.yielded[start.label] = facts
            _file(start, facts, note)
        reused = kept is not None
        self.boots.append(_boot(start, facts, reused=reused, failure=failure))
        return facts

    def _again(self, start: Start) -> None:
        """What it yields is not used: the first attempt stays a failed measurement."""
        self.bench.say(f"{start.label}: once more, to see whether that is an accident")
        run_start(self.bench, start, self.runner)


def _file(start: Start, facts: BootFacts, note: StateFacts) -> None:
    if Part.ANSWERS in start.parts:
        note.answers = facts
    if Part.TIMING in start.parts:
        note.timings[start.round, start.block] = facts
    if Part.COVERAGE in start.parts:
        note.coverage = facts


def _boot(
    start: Start, facts: BootFacts | None, *, reused: bool, failure: str | None
) -> Boot:
    return Boot(
        state=start.state.label,
        server=start.setup.name,
        purpose=" and ".join(sorted(part.value for part in start.parts)),
        round=start.round,
        block=start.block,
        started=facts is not None,
        start_seconds=facts.start_seconds if facts else None,
        reused=reused,
        failure=failure,
        raw=(f"raw/{start.label}.json",) if facts else (),
    )


def _one_line(error: HarnessError) -> str:
    return " ".join(error.line().splitlines()[0].split())
