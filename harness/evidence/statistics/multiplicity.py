# SPDX-License-Identifier: Apache-2.0
"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given.

    Holm, Scandinavian Journal of Statistics 6 (1979) 65-70; the adjusted form as in
    Wright, Biometrics 48 (1992) 1005-1013. Rejecting what is at most alpha holds the
    chance of any false rejection to alpha, whatever the dependence.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.size == 0:
        return []
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"not all of {p_values} are probabilities")
    order = np.argsort(p, kind="stable")
    factors = np.arange(p.size, 0, -1)
    stepped = np.maximum.accumulate(p[order] * factors)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]
