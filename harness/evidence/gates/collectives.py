# SPDX-License-Identifier: Apache-2.0
"""The collectives of a served draft's forward: exact, call by call."""

from __future__ import annotations

from collections.abc import Sequence

from harness.models.collectives import CallChange, CollectiveFacts, compare
from harness.models.series import CollectiveClaim
from harness.models.signal import Answer, Signal


def collective_signal(
    base: CollectiveFacts,
    patched: CollectiveFacts,
    claims: Sequence[CollectiveClaim],
    *,
    name: str,
) -> Signal:
    """Whether the collectives changed as claimed, and in nothing else.

    Forwards of as many tokens are compared call by call; how many forwards there were
    depends on when requests arrive, and is not.
    """
    found = compare(base, patched)
    if not found.tokens:
        return Signal(
            name=name,
            answer=Answer.CANT_TELL,
            reason="no forward of the same number of tokens ran in both",
        )
    met: set[int] = set()
    for change in found.changes:
        claim = next((n for n, c in enumerate(claims) if _fits(change, c)), None)
        if claim is None:
            return Signal(name=name, answer=Answer.WORSE, reason=_unclaimed(change))
        met.add(claim)
    sizes = f"{found.equal_calls} calls equal over {len(found.tokens)} forward sizes"
    for number, claim_ in enumerate(claims):
        if number not in met:
            reason = f"{claim_.kind} did not change as claimed ({sizes})"
            return Signal(name=name, answer=Answer.WORSE, reason=reason)
    changed = "; ".join(_change(change) for change in found.changes) or "no change"
    return Signal(
        name=name, answer=Answer.BETTER_OR_EQUAL, reason=f"{changed}; {sizes}"
    )


def _fits(change: CallChange, claim: CollectiveClaim) -> bool:
    before, after = change.bytes_per_row
    same = change.base == change.patched == claim.kind
    known = before is not None and after is not None
    return same and known and after == before * claim.bytes_ratio  # type: ignore[operator]


def _change(change: CallChange) -> str:
    before, after = change.bytes_per_row
    return f"{change.base} from {before} to {after} bytes per row"


def _unclaimed(change: CallChange) -> str:
    before, after = change.bytes_per_row
    return (
        f"call {change.position} was {change.base} ({before} bytes per row), is "
        f"{change.patched} ({after}), and no claim says so"
    )
