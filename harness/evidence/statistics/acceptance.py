# SPDX-License-Identifier: Apache-2.0
"""Accepted draft tokens, with the request as the unit.

Tokens of one request succeed or fail together, so rates are ratio estimators over
requests (Cochran, Sampling Techniques, chapter 6) and their errors come from the
spread between requests: the delta method, each request's share in the estimate being
its influence value (Deng, Knoblich and Lu, KDD 2018, section 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from harness.evidence.statistics.intervals import Estimate, check_level, t_half_width

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Acceptance:
    """Counts of one arm, one row a request (or a batch with counters of its own).

    ``drafts``: shape (requests,), how often tokens were drafted. ``accepted``: shape
    (requests, positions), how often the draft token at that position was accepted.
    """

    drafts: Floats
    accepted: Floats

    @classmethod
    def of(cls, drafts: ArrayLike, accepted: ArrayLike) -> Acceptance:
        """Check shapes and that some request drafted at all."""
        d = np.asarray(drafts, dtype=np.float64)
        a = np.asarray(accepted, dtype=np.float64)
        if d.ndim != 1 or a.ndim != 2 or a.shape[0] != d.size or a.shape[1] == 0:
            raise ValueError(
                f"shapes {d.shape} and {a.shape} are not one row a request"
            )
        if not (np.all(np.isfinite(d)) and np.all(np.isfinite(a))):
            raise ValueError("counts must be finite")
        if d.sum() <= 0:
            raise ValueError("no request drafted a token")
        return cls(d, a)

    @property
    def requests(self) -> int:
        return self.drafts.size

    @property
    def positions(self) -> int:
        return int(self.accepted.shape[1])

    @property
    def rates(self) -> Floats:
        """Accepted share per position, shape (positions,)."""
        return np.asarray(self.accepted.sum(axis=0) / self.drafts.sum())

    @property
    def length(self) -> float:
        """Mean tokens per target step: 1 + accepted / drafts."""
        return 1 + float(self.accepted.sum() / self.drafts.sum())


def impossible_counts(arm: Acceptance) -> list[str]:
    """What is wrong with the counts themselves; empty when nothing is.

    A token is accepted only behind accepted ones, so counts fall with the position.
    """
    problems = []
    if np.any(arm.drafts < 0) or np.any(arm.accepted < 0):
        problems.append("a count is negative")
    if np.any(arm.accepted > arm.drafts[:, None]):
        problems.append("more tokens were accepted at a position than drafted")
    if np.any(np.diff(arm.accepted, axis=1) > 0):
        problems.append("a later position was accepted more often than an earlier one")
    return problems


def identity_error(length: float, rates: ArrayLike) -> float:
    """Distance between a reported length and 1 + the sum of the reported rates.

    Zero but for rounding; more means that counters of some engine are missing.
    """
    return abs(length - 1 - float(np.sum(np.asarray(rates, dtype=np.float64))))


def length_interval(arm: Acceptance, *, level: float = 0.9) -> Estimate:
    """The acceptance length with its interval over requests."""
    return _around(arm.length, _length_influence(arm), level)


def length_effect(
    base: Acceptance, patched: Acceptance, *, level: float = 0.9
) -> Estimate:
    """log(length patched / length base), paired: row i is the same prompt in both."""
    _check_paired(base, patched)
    influence = _length_change(base, patched)
    return _around(math.log(patched.length / base.length), influence, level)


def rate_effect(
    base: Acceptance, patched: Acceptance, position: int, *, level: float = 0.9
) -> Estimate:
    """Difference of the accepted share at one position, paired by prompt.

    A difference, not a ratio: a rate may be zero in either arm.
    """
    _check_paired(base, patched)
    influence = _rate_influence(patched, position) - _rate_influence(base, position)
    value = float(patched.rates[position] - base.rates[position])
    return _around(value, influence, level)


def thirds(arm: Acceptance) -> tuple[Acceptance, Acceptance]:
    """The first and the last third of the rows, which are in the order of time."""
    size = arm.requests // 3
    if size < 2:
        raise ValueError("thirds of six requests or more are needed")
    return (
        Acceptance.of(arm.drafts[:size], arm.accepted[:size]),
        Acceptance.of(arm.drafts[-size:], arm.accepted[-size:]),
    )


def decay_change(
    base: Acceptance, patched: Acceptance, *, level: float = 0.9
) -> Estimate:
    """How much more the patched arm decays from its first third to its last.

    The log ratio of (last over first) in patched to the same in base: the base's own
    decay, and prompts that differ between the thirds, cancel out. Rows are paired by
    prompt between the arms; the thirds are independent of each other, so their
    variances add, with Welch's degrees of freedom (Biometrika 34 (1947) 28-35).
    """
    _check_paired(base, patched)
    pairs = list(zip(thirds(base), thirds(patched), strict=True))
    first, last = (math.log(after.length / before.length) for before, after in pairs)
    variances = [_squared_error(_length_change(*pair)) for pair in pairs]
    total = sum(variances)
    value = last - first
    freedom = pairs[0][0].requests - 1
    if total > 0:
        freedom = int(total**2 / sum(v**2 / freedom for v in variances))
    half = t_half_width(level, freedom) * math.sqrt(total)
    return Estimate(value, value - half, value + half, level)


def bootstrap_length_effect(
    base: Acceptance, patched: Acceptance, *, level: float = 0.9, seed: int = 0
) -> Estimate:
    """Percentile bootstrap of ``length_effect`` over prompts: its cross-check."""
    _check_paired(base, patched)
    check_level(level)
    columns = (
        base.drafts,
        base.accepted.sum(axis=1),
        patched.drafts,
        patched.accepted.sum(axis=1),
    )

    def statistic(d0: Floats, a0: Floats, d1: Floats, a1: Floats, axis: int) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            before = a0.sum(axis=axis) / d0.sum(axis=axis)
            after = a1.sum(axis=axis) / d1.sum(axis=axis)
        return np.asarray(np.log1p(after) - np.log1p(before))

    value = math.log(patched.length / base.length)
    draws = stats.bootstrap(
        columns,
        statistic,
        paired=True,
        vectorized=True,
        confidence_level=level,
        n_resamples=4999,
        batch=500,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).bootstrap_distribution
    # A draw in which no prompt drafted has no length; it says nothing.
    tail = (1 - level) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), level)


def _length_influence(arm: Acceptance) -> Floats:
    accepted = arm.accepted.sum(axis=1)
    residual = accepted - (arm.length - 1) * arm.drafts
    return np.asarray(residual / arm.drafts.mean())


def _length_change(base: Acceptance, patched: Acceptance) -> Floats:
    """Influence of each prompt on log(length patched / length base)."""
    return np.asarray(
        _length_influence(patched) / patched.length
        - _length_influence(base) / base.length
    )


def _rate_influence(arm: Acceptance, position: int) -> Floats:
    residual = arm.accepted[:, position] - arm.rates[position] * arm.drafts
    return np.asarray(residual / arm.drafts.mean())


def _around(value: float, influence: Floats, level: float) -> Estimate:
    n = influence.size
    if n < 2:
        raise ValueError("an interval needs two requests or more")
    half = t_half_width(level, n - 1) * math.sqrt(_squared_error(influence))
    return Estimate(value, value - half, value + half, level)


def _squared_error(influence: Floats) -> float:
    n = influence.size
    return float(np.sum(influence**2)) / (n * (n - 1))


def _check_paired(base: Acceptance, patched: Acceptance) -> None:
    if base.accepted.shape != patched.accepted.shape:
        raise ValueError(
            f"not paired: {base.requests} requests of {base.positions} positions and "
            f"{patched.requests} of {patched.positions}"
        )
