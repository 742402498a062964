# SPDX-License-Identifier: Apache-2.0
"""Acceptance: collapse, one position alone, decay, a floor, impossible counts."""

from __future__ import annotations

import numpy as np
import pytest

from harness.evidence.gates.acceptance import (
    acceptance_signals,
    decay_signal,
    floor_signal,
    identity_problem,
)
from harness.evidence.statistics.acceptance import Acceptance
from harness.models.signal import Answer


def arm(first: int, second: int, requests: int = 40, spread: int = 0) -> Acceptance:
    """40 requests of 20 drafts, so many accepted at each of two positions."""
    wiggle = np.resize([spread, -spread], requests)
    accepted = np.stack([first + wiggle, second + wiggle], axis=1)
    return Acceptance.of([20] * requests, accepted)


def test_the_same_acceptance_is_equal_everywhere():
    signals = acceptance_signals(arm(19, 12), arm(19, 12))
    assert [s.name for s in signals] == [
        "acceptance length",
        "acceptance at position 1",
        "acceptance at position 2",
    ]
    assert {s.answer for s in signals} == {Answer.BETTER_OR_EQUAL}


def test_a_collapse_is_worse_everywhere():
    signals = acceptance_signals(arm(19, 12), arm(1, 0))
    assert {s.answer for s in signals} == {Answer.WORSE}


def test_one_position_alone_is_found():
    answers = [s.answer for s in acceptance_signals(arm(19, 4), arm(19, 3))]
    assert answers[1:] == [Answer.BETTER_OR_EQUAL, Answer.WORSE]
    # A twentieth of 20 drafts is 2% of a length of 2.15: inside the floor.
    assert answers[0] is Answer.BETTER_OR_EQUAL


def test_a_shuffled_arm_stays_open_when_requests_differ_much():
    rng = np.random.default_rng(8)
    own = rng.integers(2, 19, 20)
    base = Acceptance.of([20] * 20, own[:, None])
    patched = Acceptance.of([20] * 20, rng.integers(2, 19, 20)[:, None])
    assert Answer.CANT_TELL in {s.answer for s in acceptance_signals(base, patched)}


def test_a_position_that_never_accepts_has_nothing_to_lose():
    signals = acceptance_signals(arm(19, 0), arm(19, 0))
    assert signals[2].answer is Answer.BETTER_OR_EQUAL


def test_better_is_fine():
    signals = acceptance_signals(arm(10, 5), arm(19, 12))
    assert {s.answer for s in signals} == {Answer.BETTER_OR_EQUAL}


@pytest.mark.parametrize("bad", [arm(12, 19), arm(30, 12), arm(19, 12, requests=39)])
def test_impossible_or_unpaired_counts_are_invalid(bad):
    (signal,) = acceptance_signals(arm(19, 12), bad)
    assert signal.answer is Answer.INVALID


def test_few_requests_stay_open():
    (signal,) = acceptance_signals(arm(19, 12, 9), arm(1, 0, 9))
    assert signal.answer is Answer.CANT_TELL


def test_decay_beyond_the_bases_own():
    steady, falling = arm(19, 12), in_time([19] * 20 + [3] * 20)
    steady = Acceptance(steady.drafts, steady.accepted[:, :1])
    assert decay_signal(steady, steady).answer is Answer.BETTER_OR_EQUAL
    assert decay_signal(falling, falling).answer is Answer.BETTER_OR_EQUAL
    assert decay_signal(steady, falling).answer is Answer.WORSE
    assert decay_signal(falling, steady).answer is Answer.BETTER_OR_EQUAL


def in_time(accepted: list[int]) -> Acceptance:
    return Acceptance.of([20] * len(accepted), [[count] for count in accepted])


def test_the_floor_sees_a_collapse_of_both_arms():
    assert floor_signal(arm(19, 12), (0.9, 0.5)).answer is Answer.BETTER_OR_EQUAL
    assert floor_signal(arm(1, 0), (0.9, 0.5)).answer is Answer.WORSE
    spread = arm(16, 12, spread=4)
    assert floor_signal(spread, (0.8, 0.6)).answer is Answer.CANT_TELL
    assert floor_signal(arm(19, 12), (0.9,)).answer is Answer.INVALID


def test_identity():
    assert identity_problem(2.5, [0.9, 0.6]) == ""
    assert "counters are missing" in identity_problem(2.5, [0.9, 0.3])
