# SPDX-License-Identifier: Apache-2.0
"""What the gates share: the error rate, intervals as data, failed measurements."""

from __future__ import annotations

import math

from harness.evidence.statistics.intervals import Estimate
from harness.models.signal import Answer, Bounds, Numbers, Signal

ALPHA = 0.05
"""Error rate of each test of harm and of each claim of "better or equal"."""


def bounds(estimate: Estimate) -> Bounds:
    """The interval as it is stored; an infinite end is no end."""
    return Bounds(
        low=estimate.low if math.isfinite(estimate.low) else None,
        high=estimate.high if math.isfinite(estimate.high) else None,
        level=estimate.level,
    )


def invalid(name: str, reason: str, *, gated: bool = True) -> Signal:
    """The signal of a measurement that failed; ``reason`` says how."""
    line = " ".join(reason.split()) or "no reason was given"
    return Signal(name=name, answer=Answer.INVALID, reason=line, gated=gated)


def shown(
    name: str, before: float, after: float, *, better: bool, unit: str, reason: str
) -> Signal:
    """A figure of one pair of starts: it has no spread, and judges nothing."""
    return Signal(
        name=name,
        answer=Answer.BETTER_OR_EQUAL if better else Answer.CANT_TELL,
        reason=reason,
        numbers=Numbers(
            unit=unit,
            base=before,
            patched=after,
            effect_unit="ratio",
            effect=after / before,
            n=1,
            n_of="pairs of server starts",
        ),
        gated=False,
    )


def answer(*, harm: bool, excluded: bool) -> Answer:
    """Three answers from two questions.

    Args:
        harm: A harm was shown (significant, and as large as the gate asks).
        excluded: The harm that matters was excluded.
    """
    if harm:
        # A real harm, too small to matter: no test decides that, a person does.
        return Answer.CANT_TELL if excluded else Answer.WORSE
    return Answer.BETTER_OR_EQUAL if excluded else Answer.CANT_TELL


def points(share: float) -> str:
    """A difference of shares in percentage points."""
    return f"{_two_places(100 * share)} points"


def percent(log_ratio: float) -> str:
    """A log ratio as a change in percent."""
    return f"{_two_places(100 * math.expm1(log_ratio))}%"


def _two_places(value: float) -> str:
    # Adding zero turns a rounded -0.0 into 0.0.
    return f"{round(value, 2) + 0.0:+.2f}"
