# SPDX-License-Identifier: Apache-2.0
"""Questions that are answered right on one side of a comparison only, kept whole."""

from __future__ import annotations

import contextlib

from pydantic import TypeAdapter

from harness.errors import InfrastructureError
from harness.evidence.pairing import Pair, flips, pair
from harness.models.boots import BootFacts
from harness.models.facts import AccuracyFacts
from harness.workflows.verify.judge import Arms

_PAIRS = TypeAdapter(tuple[Pair, ...])


def flipped(arms: Arms) -> dict[str, tuple[Pair, ...]]:
    """By the name of the file that keeps them; cells without any have none."""
    found: dict[str, tuple[Pair, ...]] = {}
    before, after = arms.before.answers, arms.after.answers
    if before is None or after is None:
        return found
    for cell in arms.setup.accuracy:
        # Runs that asked different questions are refused by the gate.
        with contextlib.suppress(InfrastructureError):
            pairs = flips(pair(_of(before, cell.name), _of(after, cell.name)))
            if pairs:
                name = f"flips-{arms.comparison}-{arms.setup.name}-{cell.name}.json"
                found[name] = pairs
    return found


def as_json(pairs: tuple[Pair, ...]) -> str:
    """Each question with both answers, as they were given and scored."""
    return _PAIRS.dump_json(pairs, indent=1).decode() + "\n"


def _of(facts: BootFacts, cell: str) -> AccuracyFacts:
    for one in facts.accuracy:
        if one.cell == cell:
            return one
    raise InfrastructureError("was not measured", where=f"cell {cell}")
