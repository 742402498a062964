# SPDX-License-Identifier: Apache-2.0
"""Accuracy on the same questions, and the rates that move before the score does."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from harness.evidence.gates.common import ALPHA, answer, bounds, invalid, points
from harness.evidence.statistics.intervals import Estimate, two_sided
from harness.evidence.statistics.multiplicity import holm
from harness.evidence.statistics.proportions import (
    PairedCounts,
    bootstrap_difference,
    mcnemar_harm,
    mde_difference,
    pairs_for_margin,
    tango,
)
from harness.models.signal import Numbers, Signal

MARGIN = 0.01
"""The loss that matters, as a share: 1 point."""


def accuracy_signal(
    base_right: ArrayLike,
    patched_right: ArrayLike,
    *,
    name: str = "accuracy",
    margin: float = MARGIN,
    alpha: float = ALPHA,
    base_discordance: float | None = None,
) -> Signal:
    """Whether as many questions are right as before.

    Worse: the exact McNemar test shows harm. Better or equal: the score interval
    excludes a loss of ``margin`` (non-inferiority); "no harm was shown" is not enough.

    Args:
        base_right: One boolean a question.
        patched_right: The same questions in the same order.
        base_discordance: Share of the questions on which two runs of the base
            disagree; the noise shown next to the answer.
    """
    try:
        counts = PairedCounts.of(base_right, patched_right)
    except ValueError as error:
        return invalid(name, str(error))
    loss, gain = counts.base_only, counts.patched_only
    interval = tango(counts, two_sided(alpha))
    p = mcnemar_harm(loss, gain)
    excluded = interval.low > -margin
    reason = (
        f"{points(interval.value)} on {counts.n} questions ({loss} lost, {gain} "
        f"gained), at worst {points(interval.low)}, margin {points(-margin)}, harm "
        f"p={p:.3g}"
    )
    if not excluded and counts.n < (needed := pairs_for_margin(margin, alpha=alpha)):
        reason += f"; this margin needs {needed} questions even if none differs"
    if loss or gain:
        check = bootstrap_difference(base_right, patched_right, level=two_sided(alpha))
        if (check.low > -margin) != excluded:
            reason += f"; the bootstrap over questions differs: {points(check.low)}"
    return Signal(
        name=name,
        answer=answer(harm=p <= alpha, excluded=excluded),
        reason=reason,
        numbers=_numbers(counts, interval, -margin, p, alpha, base_discordance),
    )


def rate_signals(
    events: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    margin: float = MARGIN,
    alpha: float = ALPHA,
) -> list[Signal]:
    """Whether answers are truncated, empty or unextractable more often than before.

    The same two questions as for accuracy, the event now being the harm; the tests of
    harm are adjusted for each other (Holm).

    Args:
        events: By name, whether it happened on each question in base and in patched.
    """
    counts: dict[str, PairedCounts] = {}
    failed: list[Signal] = []
    for name, (base, patched) in events.items():
        try:
            counts[name] = PairedCounts.of(base, patched)
        except ValueError as error:
            failed.append(invalid(name, str(error)))
    adjusted = holm(
        [mcnemar_harm(c.patched_only, c.base_only) for c in counts.values()]
    )
    return failed + [
        _rate_signal(name, c, p, margin, alpha)
        for (name, c), p in zip(counts.items(), adjusted, strict=True)
    ]


def _rate_signal(
    name: str, counts: PairedCounts, p: float, margin: float, alpha: float
) -> Signal:
    interval = tango(counts, two_sided(alpha))
    reason = (
        f"{points(interval.value)} on {counts.n} questions ({counts.patched_only} new, "
        f"{counts.base_only} gone), at worst {points(interval.high)}, margin "
        f"{points(margin)}, harm p={p:.3g} (Holm)"
    )
    return Signal(
        name=name,
        answer=answer(harm=p <= alpha, excluded=interval.high < margin),
        reason=reason,
        numbers=_numbers(counts, interval, margin, p, alpha, None),
    )


def _numbers(
    counts: PairedCounts,
    interval: Estimate,
    margin: float,
    p: float,
    alpha: float,
    base_discordance: float | None,
) -> Numbers:
    discordance = max(counts.discordance, base_discordance or 0.0)
    return Numbers(
        unit="share",
        base=counts.base_rate,
        patched=counts.patched_rate,
        effect_unit="difference",
        effect=interval.value,
        interval=bounds(interval),
        floor=margin,
        mde=mde_difference(counts.n, discordance, alpha=alpha),
        noise=base_discordance,
        p=p,
        n=counts.n,
        n_of="questions",
    )
