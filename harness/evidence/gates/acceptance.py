# SPDX-License-Identifier: Apache-2.0
"""Whether drafted tokens are accepted as before: length, positions, decay, floor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.evidence.gates.common import (
    ALPHA,
    answer,
    bounds,
    invalid,
    percent,
    points,
)
from harness.evidence.statistics.acceptance import (
    Acceptance,
    decay_change,
    identity_error,
    impossible_counts,
    length_effect,
    length_interval,
    rate_effect,
    thirds,
)
from harness.evidence.statistics.intervals import Estimate, two_sided
from harness.models.signal import Answer, Numbers, Signal

FLOOR = 0.03
"""The relative loss of acceptance that matters."""

FEWEST_REQUESTS = 10
"""Fewer rows don't carry an interval by the delta method."""

ROWS = "batches of requests"
"""What one row of counts is: the server counts, so requests are told apart by batch."""

IDENTITY_TOLERANCE = 1e-6
"""Reported lengths and rates are quotients of the same counters."""


def acceptance_signals(
    base: Acceptance,
    patched: Acceptance,
    *,
    name: str = "acceptance",
    floor: float = FLOOR,
    alpha: float = ALPHA,
) -> list[Signal]:
    """The acceptance length and every position's rate, paired by prompt.

    Worse: the interval excludes no change and the loss is beyond ``floor`` (relative).
    Better or equal: the interval excludes a loss of ``floor``. The intervals are
    one-sided at ``alpha / signals`` for harm (Bonferroni over length and positions) and
    at ``alpha`` for the claim of no harm.
    """
    if problem := _unusable(base, patched):
        return [invalid(name, problem)]
    if base.requests < FEWEST_REQUESTS:
        return [_too_few(name, base.requests)]
    tests = 1 + base.positions
    claim, harm = two_sided(alpha), two_sided(alpha / tests)
    signals = [
        _length_signal(
            f"{name} length",
            base,
            patched,
            length_effect(base, patched, level=claim),
            length_effect(base, patched, level=harm),
            math.log1p(-floor),
        )
    ]
    for position in range(base.positions):
        signals.append(
            _rate_signal(
                f"{name} at position {position + 1}",
                (float(base.rates[position]), float(patched.rates[position])),
                rate_effect(base, patched, position, level=claim),
                rate_effect(base, patched, position, level=harm),
                -floor * float(base.rates[position]),
                base.requests,
            )
        )
    return signals


def decay_signal(
    base: Acceptance,
    patched: Acceptance,
    *,
    name: str = "acceptance decay",
    floor: float = FLOOR,
    alpha: float = ALPHA,
) -> Signal:
    """Whether acceptance falls more from the first third of a run to its last.

    Rows are in the order of time. Base against patched, so that later prompts which are
    harder to draft are not taken for decay.
    """
    if problem := _unusable(base, patched):
        return invalid(name, problem)
    if base.requests < FEWEST_REQUESTS:
        return _too_few(name, base.requests)
    effect = decay_change(base, patched, level=two_sided(alpha))
    margin = math.log1p(-floor)
    reason = (
        f"last third over first third changed by {percent(effect.value)} "
        f"[{percent(effect.low)}, {percent(effect.high)}], floor {percent(margin)}"
    )
    (base_first, base_last), (first, last) = thirds(base), thirds(patched)
    return Signal(
        name=name,
        answer=_loss(effect, effect, margin),
        reason=reason,
        numbers=Numbers(
            unit="last third over first third",
            base=base_last.length / base_first.length,
            patched=last.length / first.length,
            effect_unit="ratio",
            effect=math.exp(effect.value),
            interval=bounds(_exp(effect)),
            floor=math.exp(margin),
            n=base.requests,
            n_of=ROWS,
        ),
    )


def floor_signal(
    patched: Acceptance,
    lowest_rates: Sequence[float],
    *,
    name: str = "acceptance floor",
    alpha: float = ALPHA,
) -> Signal:
    """Whether the acceptance length reaches what this model is known to give.

    A tripwire that needs no base: it also sees a collapse that both arms share.

    Args:
        lowest_rates: The lowest plausible rate of each position.
    """
    if problems := impossible_counts(patched):
        return invalid(name, problems[0])
    if len(lowest_rates) != patched.positions:
        return invalid(
            name, f"{patched.positions} positions, {len(lowest_rates)} floors"
        )
    if patched.requests < FEWEST_REQUESTS:
        return _too_few(name, patched.requests)
    lowest = 1 + float(sum(lowest_rates))
    length = length_interval(patched, level=two_sided(alpha))
    reason = (
        f"length {length.value:.3f} [{length.low:.3f}, {length.high:.3f}], "
        f"floor {lowest:.3f}"
    )
    return Signal(
        name=name,
        answer=answer(harm=length.high < lowest, excluded=length.low >= lowest),
        reason=reason,
        numbers=Numbers(
            unit="tokens per step",
            base=None,
            patched=length.value,
            effect_unit="difference",
            effect=length.value - lowest,
            interval=bounds(
                Estimate(
                    length.value - lowest,
                    length.low - lowest,
                    length.high - lowest,
                    length.level,
                )
            ),
            floor=0.0,
            n=patched.requests,
            n_of=ROWS,
        ),
    )


def identity_problem(
    length: float, rates: Sequence[float], *, tolerance: float = IDENTITY_TOLERANCE
) -> str:
    """Why reported acceptance can't be trusted: length != 1 + sum of rates; or ""."""
    error = identity_error(length, rates)
    if error <= tolerance:
        return ""
    return (
        f"the acceptance length {length:.4f} is not 1 + the sum of the positions' "
        f"rates ({1 + sum(rates):.4f}): counters are missing"
    )


def _unusable(base: Acceptance, patched: Acceptance) -> str:
    for arm, which in ((base, "base"), (patched, "patched")):
        if problems := impossible_counts(arm):
            return f"{which}: {problems[0]}"
    if base.accepted.shape != patched.accepted.shape:
        return "base and patched are not the same prompts"
    return ""


def _loss(claim: Estimate, harm: Estimate, margin: float) -> Answer:
    return answer(
        harm=harm.high < 0 and harm.value < margin, excluded=claim.low > margin
    )


def _length_signal(
    name: str,
    base: Acceptance,
    patched: Acceptance,
    claim: Estimate,
    harm: Estimate,
    margin: float,
) -> Signal:
    reason = (
        f"{base.length:.3f} -> {patched.length:.3f} tokens per step, "
        f"{percent(claim.value)} [{percent(claim.low)}, {percent(claim.high)}] over "
        f"{base.requests} {ROWS}, floor {percent(margin)}"
    )
    return Signal(
        name=name,
        answer=_loss(claim, harm, margin),
        reason=reason,
        numbers=Numbers(
            unit="tokens per step",
            base=base.length,
            patched=patched.length,
            effect_unit="ratio",
            effect=math.exp(claim.value),
            interval=bounds(_exp(claim)),
            floor=math.exp(margin),
            n=base.requests,
            n_of=ROWS,
        ),
    )


def _rate_signal(
    name: str,
    rates: tuple[float, float],
    claim: Estimate,
    harm: Estimate,
    margin: float,
    requests: int,
) -> Signal:
    reason = (
        f"{rates[0]:.1%} -> {rates[1]:.1%}, {points(claim.value)} "
        f"[{points(claim.low)}, {points(claim.high)}], floor {points(margin)}"
    )
    # A base that accepts nothing here has nothing to lose.
    nothing = rates[0] == 0
    result = Answer.BETTER_OR_EQUAL if nothing else _loss(claim, harm, margin)
    return Signal(
        name=name,
        answer=result,
        reason=reason,
        numbers=Numbers(
            unit="share",
            base=rates[0],
            patched=rates[1],
            effect_unit="difference",
            effect=claim.value,
            interval=bounds(claim),
            floor=margin,
            n=requests,
            n_of=ROWS,
        ),
    )


def _too_few(name: str, requests: int) -> Signal:
    return Signal(
        name=name,
        answer=Answer.CANT_TELL,
        reason=f"{requests} {ROWS}, an interval needs {FEWEST_REQUESTS} or more",
    )


def _exp(log: Estimate) -> Estimate:
    return Estimate(
        math.exp(log.value), math.exp(log.low), math.exp(log.high), log.level
    )
