# SPDX-License-Identifier: Apache-2.0
"""Two measurements of the same questions: was the second worse, and by how much.

A difference is always ``p_patched - p_base`` of the event that is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from harness.evidence.statistics.intervals import (
    Estimate,
    check_alpha,
    check_level,
    t_half_width,
)

RESAMPLES = 9999
"""Draws of a bootstrap; the usual number for its outer quantiles."""


@dataclass(frozen=True)
class PairedCounts:
    """How often an event (a right answer, a truncation) happened before and after."""

    both: int
    base_only: int
    patched_only: int
    neither: int

    def __post_init__(self) -> None:
        if min(self.both, self.base_only, self.patched_only, self.neither) < 0:
            raise ValueError("counts can't be negative")
        if self.n == 0:
            raise ValueError("there are no pairs")

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.both + self.base_only + self.patched_only + self.neither

    @property
    def base_rate(self) -> float:
        return (self.both + self.base_only) / self.n

    @property
    def patched_rate(self) -> float:
        return (self.both + self.patched_only) / self.n

    @property
    def difference(self) -> float:
        """``p_patched - p_base``."""
        return (self.patched_only - self.base_only) / self.n

    @property
    def discordance(self) -> float:
        """Share of the pairs in which the two disagree."""
        return (self.patched_only + self.base_only) / self.n

    @classmethod
    def of(cls, base: ArrayLike, patched: ArrayLike) -> PairedCounts:
        """Count two equally long boolean arrays, one element a question."""
        before, after = np.asarray(base, dtype=bool), np.asarray(patched, dtype=bool)
        if before.shape != after.shape or before.ndim != 1:
            raise ValueError(f"not paired: shapes {before.shape} and {after.shape}")
        return cls(
            both=int(np.sum(before & after)),
            base_only=int(np.sum(before & ~after)),
            patched_only=int(np.sum(~before & after)),
            neither=int(np.sum(~before & ~after)),
        )


def mcnemar_harm(harmed: int, helped: int) -> float:
    """One-sided p of the exact McNemar test that more pairs were harmed than helped.

    Under no effect each discordant pair is harmed with probability 1/2, so the p is the
    upper binomial tail (McNemar 1947; exact form: Agresti, Categorical Data Analysis,
    section 11.1). No discordant pair gives 1.
    """
    if harmed + helped == 0:
        return 1.0
    return float(
        stats.binomtest(harmed, harmed + helped, 0.5, alternative="greater").pvalue
    )


def tango(counts: PairedCounts, level: float = 0.9) -> Estimate:
    """Score interval for the difference of paired proportions.

    Tango, Statistics in Medicine 17 (1998) 891-908: the set of differences that the
    score test, its nuisance parameter at the restricted maximum likelihood estimate,
    does not reject.
    """
    check_level(level)
    n, gained, lost = counts.n, counts.patched_only, counts.base_only
    z = float(stats.norm.ppf((1 + level) / 2))

    def score(delta: float) -> float:
        b = -gained - lost + (2 * n - gained + lost) * delta
        c = -lost * delta * (1 - delta)
        lost_rate = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * (2 * lost_rate + delta * (1 - delta))
        distance = gained - lost - n * delta
        if variance <= 0:
            return math.copysign(math.inf, distance) if distance else 0.0
        return distance / math.sqrt(variance)

    value = counts.difference
    low = _crossing(lambda delta: score(delta) - z, -1.0, value)
    high = _crossing(lambda delta: score(delta) + z, value, 1.0)
    return Estimate(value, low, high, level)


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses zero; the end it does not reach otherwise."""
    # The score has no variance at -1 and 1 themselves.
    edge = 1e-12
    inner_low, inner_high = max(low, -1 + edge), min(high, 1 - edge)
    if inner_high <= inner_low:
        return low
    if function(inner_low) <= 0:
        return low
    if function(inner_high) >= 0:
        return high
    return float(optimize.brentq(function, inner_low, inner_high, xtol=1e-12))


def newcombe(counts: PairedCounts, level: float = 0.9) -> Estimate:
    """Square-and-add interval for the difference of paired proportions.

    Method 10 of Newcombe, Statistics in Medicine 17 (1998) 2635-2650: the two Wilson
    intervals combined, with the continuity-corrected phi coefficient as correlation.
    """
    check_level(level)
    n = counts.n
    before, after = counts.both + counts.base_only, counts.both + counts.patched_only
    base, patched = _wilson(before, n, level), _wilson(after, n, level)
    phi = _corrected_phi(counts)
    down_after, up_after = patched.value - patched.low, patched.high - patched.value
    down_before, up_before = base.value - base.low, base.high - base.value
    down = down_after**2 + up_before**2 - 2 * phi * down_after * up_before
    up = up_after**2 + down_before**2 - 2 * phi * up_after * down_before
    value = counts.difference
    return Estimate(
        value,
        value - math.sqrt(max(down, 0.0)),
        value + math.sqrt(max(up, 0.0)),
        level,
    )


def _wilson(successes: int, n: int, level: float) -> Estimate:
    interval = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    return Estimate(successes / n, float(interval.low), float(interval.high), level)


def _corrected_phi(counts: PairedCounts) -> float:
    n = counts.n
    before, after = counts.both + counts.base_only, counts.both + counts.patched_only
    product = before * (n - before) * after * (n - after)
    if product == 0:
        return 0.0
    cross = counts.both * counts.neither - counts.base_only * counts.patched_only
    if cross > 0:
        return max(cross - n / 2, 0.0) / math.sqrt(product)
    return cross / math.sqrt(product)


def bootstrap_difference(
    base: ArrayLike, patched: ArrayLike, *, level: float = 0.9, seed: int = 0
) -> Estimate:
    """Percentile bootstrap over questions, the cross-check of the score interval.

    ``base`` and ``patched`` have one row a question: shape (questions,) or
    (questions, repeats). Repeats of a question are averaged first, so that the question
    stays the unit (Efron and Tibshirani 1993, chapter 13; Miller 2024, section 3).
    """
    check_level(level)
    change = _mean_change(base, patched)
    # Drawing questions with replacement is a multinomial draw of the few values that
    # their changes have.
    values, counts = np.unique(change, return_counts=True)
    draws = np.random.default_rng(seed).multinomial(
        change.size, counts / change.size, size=RESAMPLES
    )
    tail = (1 - level) / 2
    low, high = np.quantile(draws @ values / change.size, [tail, 1 - tail])
    return Estimate(float(change.mean()), float(low), float(high), level)


def clustered_difference(
    base: ArrayLike, patched: ArrayLike, *, level: float = 0.9
) -> Estimate:
    """Paired t interval over questions, each the mean of its repeats.

    Shape (questions, repeats) or (questions,). Clustering by question as in Miller,
    "Adding Error Bars to Evals", arXiv 2411.00640, sections 2.2 and 4.2: repeats of one
    question are never counted as questions.
    """
    change = _mean_change(base, patched)
    if change.size < 2:
        raise ValueError("a t interval needs two questions or more")
    value = float(change.mean())
    error = float(change.std(ddof=1)) / math.sqrt(change.size)
    half = t_half_width(level, change.size - 1) * error
    return Estimate(value, value - half, value + half, level)


def _mean_change(base: ArrayLike, patched: ArrayLike) -> NDArray[np.float64]:
    before = np.asarray(base, dtype=np.float64)
    after = np.asarray(patched, dtype=np.float64)
    if before.ndim == 0 or before.shape[0] != after.shape[0] or before.size == 0:
        raise ValueError(f"not paired: shapes {before.shape} and {after.shape}")
    rows = before.shape[0]
    means = after.reshape(rows, -1).mean(axis=1) - before.reshape(rows, -1).mean(axis=1)
    return np.asarray(means, dtype=np.float64)


def mde_difference(
    n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest drop in the rate that ``n`` pairs show with this power.

    Normal approximation of the paired test with variance ``discordance / n`` (Connor,
    Biometrics 43 (1987) 207-211, without its small correction of the variance by the
    squared drop). The test is exact, so the answer is never less than what the fewest
    rejecting discordant pairs make: ``log2(1/alpha)`` of them, rounded up.
    """
    check_alpha(alpha)
    if not 0 <= discordance <= 1 or n < 1:
        raise ValueError(f"n is {n} and discordance {discordance}")
    quantiles = float(stats.norm.ppf(1 - alpha) + stats.norm.ppf(power))
    return max(
        quantiles * math.sqrt(discordance / n), math.ceil(math.log2(1 / alpha)) / n
    )


def pairs_for_margin(margin: float, *, alpha: float = 0.05) -> int:
    """How many pairs a pass needs when not one of them differs.

    With no discordant pair the Tango bound is ``-z^2 / (n + z^2)``.
    """
    check_alpha(alpha)
    if not 0 < margin < 1:
        raise ValueError(f"the margin is {margin}, it must lie between 0 and 1")
    z2 = float(stats.norm.ppf(1 - alpha)) ** 2
    return math.floor(z2 * (1 - margin) / margin) + 1
