# SPDX-License-Identifier: Apache-2.0
"""Questions that are answered right on one side of a comparison only, kept whole."""

from __future__ import annotations

import contextlib

from pydantic import TypeAdapter

from harness.errors import InfrastructureError
from harness.evidence.pairing import Pair, flips, pair
from harness.workflows.verify.judge import Arms, find_cell

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
            base = find_cell(before.accuracy, cell.name)
            pairs = flips(pair(base, find_cell(after.accuracy, cell.name)))
            if pairs:
                name = f"flips-{arms.comparison}-{arms.setup.name}-{cell.name}.json"
                found[name] = pairs
    return found


def as_json(pairs: tuple[Pair, ...]) -> str:
    """Each question with both answers, as they were given and scored."""
    return _PAIRS.dump_json(pairs, indent=1).decode() + "\n"
