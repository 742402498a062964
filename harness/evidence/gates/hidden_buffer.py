# SPDX-License-Identifier: Apache-2.0
"""The served target's hidden-state buffer: exact, present or gone as claimed."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evidence.gates.common import invalid
from harness.models.hidden_buffer import Buffer, HiddenBufferFacts
from harness.models.series import HiddenBufferClaim
from harness.models.signal import Answer, Signal


def hidden_buffer_signal(
    base: HiddenBufferFacts,
    patched: HiddenBufferFacts,
    claims: Sequence[HiddenBufferClaim],
    *,
    method: str | None,
    name: str,
) -> Signal:
    """Whether the buffer exists and is filled as it has to be.

    Args:
        claims: Of the patches between the two; without one nothing may change.
        method: The speculative method that is served, None for none.
    """
    if base.model != patched.model:
        reason = f"{base.model} was served before, {patched.model} after"
        return invalid(name, reason)
    if foreign := base.foreign or patched.foreign:
        return invalid(name, f"not the tree's own code: {', '.join(foreign)}")
    if not base.filled:
        return invalid(name, f"unpatched: {_unfilled(base)}")
    wanted, why = base.buffer, "no change is claimed"
    for claim in claims:
        if base.model.startswith(f"{claim.module}."):
            kept = method in claim.methods
            wanted = base.buffer if kept else None
            reads = "reads it" if kept else "reads nothing"
            why = f"{method or 'no speculation'} {reads}"
    found = f"{_said(base.buffer)} -> {_said(patched.buffer)}; {why}"
    if patched.buffer != wanted:
        return Signal(name=name, answer=Answer.WORSE, reason=found)
    if not patched.filled:
        return Signal(
            name=name, answer=Answer.WORSE, reason=f"{found}; {_unfilled(patched)}"
        )
    rows = f"; every row held the residual ({base.rows} and {patched.rows} rows)"
    if base.buffer is not None and patched.buffer is None:
        rows = f"; unpatched every one of {base.rows} rows held the residual"
    own = f"; all methods of {len(patched.classes)} served classes are the tree's own"
    return Signal(name=name, answer=Answer.BETTER_OR_EQUAL, reason=found + rows + own)


def _said(buffer: Buffer | None) -> str:
    return "no buffer" if buffer is None else str(buffer)


def _unfilled(facts: HiddenBufferFacts) -> str:
    return (
        f"only {facts.rows_of_residual} of {facts.rows} rows held the residual after "
        "their forward"
    )
