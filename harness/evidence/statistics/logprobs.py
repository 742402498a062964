# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of greedy answers, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class GreedyAnswer:
    """Token ids of one answer and the log-probability of each, in nats."""

    tokens: Sequence[int]
    logprobs: ArrayLike


@dataclass(frozen=True)
class LogprobDifference:
    """Absolute differences in nats over the tokens whose context was the same."""

    largest: float
    mean: float
    tokens: int
    """Tokens compared."""
    answers: int
    diverged: int
    """Answers whose tokens differ somewhere; compared up to and with that token."""


def compare(
    base: Sequence[GreedyAnswer], patched: Sequence[GreedyAnswer]
) -> LogprobDifference:
    """Compare answers to the same prompts, in the same order.

    The first differing token still counts: greedy decoding takes the largest
    log-probability, and that of the same context must agree whichever token has it. The
    contexts behind it differ, so nothing there counts.

    Raises:
        ValueError: Not the same number of answers, an answer without one
            log-probability a token, no token to compare, or a base value that is not
            finite. A patched value that is not finite is an infinite difference.
    """
    if len(base) != len(patched):
        raise ValueError(f"not paired: {len(base)} answers and {len(patched)}")
    pieces = [
        _common(before, after) for before, after in zip(base, patched, strict=True)
    ]
    differences = np.concatenate([piece for piece, _ in pieces] or [np.empty(0)])
    if differences.size == 0:
        raise ValueError("no token has the same context in both")
    return LogprobDifference(
        largest=float(differences.max()),
        mean=float(differences.mean()),
        tokens=differences.size,
        answers=len(base),
        diverged=sum(diverged for _, diverged in pieces),
    )


def _common(before: GreedyAnswer, after: GreedyAnswer) -> tuple[np.ndarray, bool]:
    old = np.asarray(before.logprobs, dtype=np.float64)
    new = np.asarray(after.logprobs, dtype=np.float64)
    if old.shape != (len(before.tokens),) or new.shape != (len(after.tokens),):
        raise ValueError("an answer has not one log-probability for each token")
    if not np.all(np.isfinite(old)):
        raise ValueError("a log-probability of the base is not finite")
    length = 0
    for one, other in zip(before.tokens, after.tokens, strict=False):
        length += 1
        if one != other:
            break
    difference = np.abs(new[:length] - old[:length])
    diverged = list(before.tokens) != list(after.tokens)
    return np.where(np.isfinite(difference), difference, np.inf), diverged
