# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from harness.evidence.gates.exact import exact_signal, logprob_signal
from harness.evidence.statistics.logprobs import GreedyAnswer
from harness.models.signal import Answer


@pytest.mark.parametrize(
    ("base", "patched", "expected", "answer"),
    [
        (448, 448, None, Answer.BETTER_OR_EQUAL),
        (448, 447, None, Answer.WORSE),
        (448, 0, 0, Answer.BETTER_OR_EQUAL),
        # A claim that is not met is not met, whichever way it misses.
        (448, 448, 0, Answer.WORSE),
        (2, 1, 0, Answer.WORSE),
        (2, 0, 1, Answer.WORSE),
    ],
)
def test_counts_gate_by_equality(base, patched, expected, answer):
    signal = exact_signal(
        "buffer", unit="MiB", base=base, patched=patched, expected=expected
    )
    assert signal.answer is answer
    assert signal.reason.startswith(f"{base} -> {patched} MiB")


def one(*logprobs: float, tokens: tuple[int, ...] = (1, 2, 3)) -> list[GreedyAnswer]:
    return [GreedyAnswer(tokens, logprobs)]


BASE = one(-0.1, -0.2, -0.3)


@pytest.mark.parametrize(
    ("patched", "noise", "answer"),
    [
        (BASE, None, Answer.BETTER_OR_EQUAL),
        (one(-0.100001, -0.2, -0.3), None, Answer.BETTER_OR_EQUAL),
        (one(-0.11, -0.2, -0.3), None, Answer.WORSE),
        (one(-0.11, -0.2, -0.3), 1e-6, Answer.WORSE),
        (one(-0.11, -0.2, -0.3), 0.02, Answer.CANT_TELL),
        (one(-0.15, -0.2, -0.3), 0.02, Answer.WORSE),
        (one(math.nan, -0.2, -0.3), 0.02, Answer.WORSE),
        # Two tokens within the tolerance of each other swapped places.
        (one(-0.1, -0.2, -0.3, tokens=(1, 2, 9)), None, Answer.CANT_TELL),
        (one(-0.1, -0.2, -0.9, tokens=(1, 2, 9)), None, Answer.WORSE),
        ([], None, Answer.INVALID),
    ],
)
def test_logprobs(patched, noise, answer):
    signal = logprob_signal(BASE, patched, tolerance=1e-5, noise=noise)
    assert signal.answer is answer
