# SPDX-License-Identifier: Apache-2.0
"""Pairs of server starts: the effect as a ratio, and what so few pairs can show.

The unit is a block: one start of the base and one of the patched tree, next to each
other. Repeats inside one start are averaged before they come here. Effects are means of
``log(patched / base)``, shown as ratios of geometric means.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from harness.evidence.statistics.intervals import (
    Estimate,
    check_alpha,
    check_level,
    t_half_width,
)

EXACT_BLOCKS = 16
"""Up to here all 2^k signs are enumerated (65536); above, that many are drawn."""

SIGN_FLIP_BLOCKS = 5
"""Fewer blocks can't reach 5%: the smallest one-sided p is 2^-k."""

Floats = NDArray[np.float64]

Alternative = Literal["less", "greater", "two-sided"]


def log_ratios(base: ArrayLike, patched: ArrayLike) -> Floats:
    """``log(patched / base)`` for each block; values must be positive and finite."""
    before = np.asarray(base, dtype=np.float64)
    after = np.asarray(patched, dtype=np.float64)
    if before.shape != after.shape or before.ndim != 1 or before.size == 0:
        raise ValueError(f"not paired: shapes {before.shape} and {after.shape}")
    values = np.concatenate([before, after])
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError("a ratio needs positive, finite values")
    return np.asarray(np.log(after) - np.log(before), dtype=np.float64)


def mean_interval(logs: ArrayLike, *, level: float = 0.9) -> Estimate:
    """Student's t interval for the mean of the log ratios (two blocks or more).

    Assumes that they are about normal; on the ratio scale this is the interval for the
    ratio of geometric means (Bland and Altman, BMJ 312 (1996) 1153).
    """
    d = _vector(logs)
    if d.size < 2:
        raise ValueError("an interval needs two blocks or more")
    value = float(d.mean())
    half = t_half_width(level, d.size - 1) * float(d.std(ddof=1)) / math.sqrt(d.size)
    return Estimate(value, value - half, value + half, level)


def ratio_interval(logs: ArrayLike, *, level: float = 0.9) -> Estimate:
    """``mean_interval`` on the ratio scale: patched over base."""
    d = mean_interval(logs, level=level)
    return Estimate(math.exp(d.value), math.exp(d.low), math.exp(d.high), level)


def t_harm(benefits: ArrayLike) -> float:
    """One-sided p of the t test that the mean benefit is below zero."""
    d = _vector(benefits)
    if d.size < 2:
        raise ValueError("a t test needs two blocks or more")
    if np.ptp(d) == 0:
        return 0.0 if d[0] < 0 else 1.0
    t = float(d.mean()) / float(d.std(ddof=1)) * math.sqrt(d.size)
    return float(special.stdtr(d.size - 1, t))


def sign_flip(logs: ArrayLike, alternative: Alternative = "two-sided") -> float:
    """p of the sign-flip permutation test of a zero centre, exact up to 16 blocks.

    Under no effect a block's log ratio is as likely as its negative, whatever its
    distribution (Fisher, The Design of Experiments, 1935, section 21; Pitman 1937).
    The smallest p is ``2^-k`` one-sided and ``2^(1-k)`` two-sided.

    Args:
        alternative: "less" (mean below zero), "greater" or "two-sided".
    """
    d = _vector(logs)
    if d.size < 2:
        # scipy asks for two observations; with one the p-values are known.
        return {"two-sided": 1.0, "less": 0.5 if d[0] < 0 else 1.0}.get(
            alternative, 0.5 if d[0] > 0 else 1.0
        )
    scale = float(np.max(np.abs(d))) or 1.0
    result = stats.permutation_test(
        (d / scale,),
        _mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=1 << EXACT_BLOCKS,
        alternative=alternative,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def _mean(values: Floats, axis: int) -> Floats:
    # Arrangements whose means are equal must tie, in whatever order they are summed.
    return np.asarray(np.round(np.mean(values, axis=axis), 12), dtype=np.float64)


def smallest_p(blocks: int) -> float:
    """The smallest one-sided p that the sign-flip test can give."""
    return 2.0**-blocks


def mde(
    blocks: int, block_sd: float, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest mean log ratio that the one-sided paired t test shows with this power.

    Solves the noncentral t power function (Cohen 1988, chapter 2). ``block_sd`` is the
    standard deviation of the log ratios of single blocks.
    """
    check_alpha(alpha)
    if blocks < 2:
        return math.inf
    if block_sd < 0 or not alpha < power < 1:
        raise ValueError(f"block_sd is {block_sd} and power {power}")
    noncentrality = _noncentrality(blocks, alpha, power)
    return noncentrality * block_sd / math.sqrt(blocks)


@functools.cache
def _noncentrality(blocks: int, alpha: float, power: float) -> float:
    """The noncentrality at which the one-sided t test has this power."""
    critical = float(stats.t.ppf(1 - alpha, blocks - 1))

    def missing(noncentrality: float) -> float:
        return float(stats.nct.sf(critical, blocks - 1, noncentrality)) - power

    # With one degree of freedom and a strict alpha the answer is far out.
    high = 4.0
    while missing(high) < 0:
        high *= 2
    return float(optimize.brentq(missing, 0.0, high))


@dataclass(frozen=True)
class NoiseFloor:
    """What base against base shows, as log ratios.

    ``sd``: standard deviation of single blocks. ``reach``: half-width of the interval
    that as many blocks as the comparison has would have around no effect at all.
    ``observed``: the interval of the mean that base against base really had; when it
    excludes zero, the arms differ by their place, not by their code.
    """

    sd: float
    reach: float
    observed: Estimate


def noise_floor(
    base_logs: ArrayLike, blocks: int, *, level: float = 0.95
) -> NoiseFloor:
    """The noise floor of ``blocks`` pairs, from pairs of base against base."""
    d = _vector(base_logs)
    observed = mean_interval(d, level=level)
    sd = float(np.std(d, ddof=1))
    quantile = t_half_width(level, d.size - 1)
    return NoiseFloor(sd, quantile * sd / math.sqrt(max(blocks, 1)), observed)


def slot_effect(
    logs: ArrayLike, base_first: ArrayLike, *, level: float = 0.95
) -> Estimate:
    """How much the second start of a pair differs from the first, as a mean log ratio.

    The period effect of a two-period cross-over: half the difference between the mean
    log ratio of the blocks with the base first and of those with it second, with a
    pooled t interval (Senn, Cross-over Trials in Clinical Research, section 3.5). Needs
    a block of each order and three in all.
    """
    check_level(level)
    d, first = _vector(logs), np.asarray(base_first, dtype=bool)
    if first.shape != d.shape:
        raise ValueError(f"not paired: shapes {d.shape} and {first.shape}")
    forward, backward = d[first], d[~first]
    if min(forward.size, backward.size) < 1 or d.size < 3:
        raise ValueError("the slot effect needs both orders and three blocks")
    difference = stats.ttest_ind(forward, backward).confidence_interval(level)
    value = float(forward.mean() - backward.mean()) / 2
    return Estimate(value, float(difference.low) / 2, float(difference.high) / 2, level)


def cliffs_delta(base: ArrayLike, patched: ArrayLike) -> float:
    """P(patched > base) - P(patched < base) over all pairs of values, in [-1, 1].

    Cliff, Psychological Bulletin 114 (1993) 494-509. A diagnostic: it ignores pairing.
    """
    before, after = _vector(base), _vector(patched)
    return float(np.mean(np.sign(after[:, None] - before[None, :])))


def _vector(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError("not a list of finite numbers")
    return array
