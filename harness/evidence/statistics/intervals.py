# SPDX-License-Identifier: Apache-2.0
"""An estimate with its interval, and the one-sided levels that intervals stand for."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True)
class Estimate:
    """A value with a two-sided interval of confidence ``level``.

    Each end alone is a one-sided bound of confidence ``(1 + level) / 2``: the two ends
    of a 90% interval are the two one-sided 95% bounds that non-inferiority and
    equivalence tests at 5% use (Schuirmann 1987).
    """

    value: float
    low: float
    high: float
    level: float


def two_sided(alpha: float) -> float:
    """The level of the interval whose ends are one-sided bounds at ``alpha``."""
    check_alpha(alpha)
    return 1 - 2 * alpha


def check_alpha(alpha: float) -> None:
    """Refuse an error rate outside (0, 0.5)."""
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha is {alpha}, it must lie between 0 and 0.5")


def check_level(level: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level}, it must lie between 0 and 1")


def t_half_width(level: float, freedom: int) -> float:
    """Student's t quantile: half the width of a two-sided interval, in errors."""
    check_level(level)
    return float(special.stdtrit(freedom, (1 + level) / 2))
