# SPDX-License-Identifier: Apache-2.0
"""Gates without chance: counts that must be equal, log-probabilities that agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.evidence.gates.common import invalid
from harness.evidence.statistics.logprobs import GreedyAnswer, compare
from harness.models.signal import Answer, Numbers, Signal


def exact_signal(
    name: str, *, unit: str, base: int, patched: int, expected: int | None = None
) -> Signal:
    """Whether a count (bytes, copies, collectives) is what it has to be.

    Args:
        expected: What the patch claims; None when it claims no change.
    """
    claim = base if expected is None else expected
    said = "no change is claimed" if expected is None else f"{expected} is claimed"
    reason = f"{base} -> {patched} {unit}, {said}"
    return Signal(
        name=name,
        answer=Answer.BETTER_OR_EQUAL if patched == claim else Answer.WORSE,
        reason=reason,
        numbers=Numbers(
            unit=unit,
            base=base,
            patched=patched,
            effect_unit="difference",
            effect=patched - base,
            floor=claim - base,
            n=1,
            n_of="counts",
        ),
    )


def logprob_signal(
    base: Sequence[GreedyAnswer],
    patched: Sequence[GreedyAnswer],
    *,
    tolerance: float,
    name: str = "log-probabilities",
    noise: float | None = None,
) -> Signal:
    """Whether greedy log-probabilities are the base's, within ``tolerance`` nats.

    Args:
        noise: The largest difference of base against base. Above the tolerance, a
            difference of the patched tree up to it proves nothing.
    """
    try:
        found = compare(base, patched)
    except ValueError as error:
        return invalid(name, str(error))
    if found.largest <= tolerance:
        # Two tokens that tie within the tolerance: the accuracy gates judge that.
        tied = found.diverged > 0
        result = Answer.CANT_TELL if tied else Answer.BETTER_OR_EQUAL
    elif noise is not None and noise > tolerance and found.largest <= noise:
        result = Answer.CANT_TELL
    else:
        result = Answer.WORSE
    reason = (
        f"largest difference {found.largest:.2g}, mean {found.mean:.2g} nats over "
        f"{found.tokens} tokens, tolerance {tolerance:.2g}; {found.diverged} of "
        f"{found.answers} answers differ in their tokens"
    )
    if noise is not None:
        reason += f"; base against base {noise:.2g}"
    return Signal(
        name=name,
        answer=result,
        reason=reason,
        numbers=Numbers(
            unit="nats",
            base=None,
            patched=None,
            effect_unit="difference",
            effect=found.largest if math.isfinite(found.largest) else None,
            floor=tolerance,
            noise=noise,
            n=found.tokens,
            n_of="tokens",
        ),
    )
