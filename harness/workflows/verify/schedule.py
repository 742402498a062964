# SPDX-License-Identifier: Apache-2.0
"""Which server starts are made, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.models.boots import Part
from harness.models.profile import ServerSetup
from harness.workflows.verify.boots import Start
from harness.workflows.verify.states import TIMING, Comparison, TreeState


def answers_start(state: TreeState, setup: ServerSetup) -> Start:
    """The start that measures what does not depend on the clock."""
    return Start(state, setup, frozenset({Part.ANSWERS}))


def only_start(
    state: TreeState,
    setup: ServerSetup,
    *,
    seed: int,
    name: str,
    peers: tuple[str, ...],
) -> Start:
    """The one start of a state that gets no other; it is timed as well."""
    if not setup.serving:
        return answers_start(state, setup)
    parts = frozenset({Part.ANSWERS, Part.TIMING})
    return Start(state, setup, parts, 1, seed, name, peers)


def coverage_starts(
    comparisons: Sequence[Comparison], setup: ServerSetup
) -> Iterator[Start]:
    """Traced starts that show every patched file's lines as its patch left them.

    The last state has nearly all of them; an earlier one is traced for a file that a
    later patch changes again.
    """
    traced: list[TreeState] = []
    for comparison in reversed(comparisons):
        targets = [t for entry in comparison.patches for t in entry.targets]
        if any(
            all(state.blobs.get(target.path) != target.after for state in traced)
            for target in targets
        ):
            traced.append(comparison.after)
            yield Start(comparison.after, setup, frozenset({Part.COVERAGE}))


@dataclass(frozen=True)
class Block:
    """One start of each state, timed one after another: these are compared."""

    starts: tuple[Start, ...]


def timing_blocks(
    states: Sequence[TreeState],
    setup: ServerSetup,
    *,
    count: int,
    seed: int,
    name: str = TIMING,
) -> Iterator[Block]:
    """Blocks in alternating order (ABC CBA ABC ...); each has prompts of its own."""
    peers = tuple(state.content for state in states)
    for number in range(1, count + 1):
        order = list(states) if number % 2 else list(reversed(states))
        parts = frozenset({Part.TIMING})
        yield Block(
            tuple(
                Start(state, setup, parts, number, seed + number, name, peers)
                for state in order
            )
        )
