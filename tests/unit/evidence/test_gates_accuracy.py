# SPDX-License-Identifier: Apache-2.0
"""Accuracy: what passes, what is harm, and what stays open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.gates.accuracy import accuracy_signal, rate_signals
from harness.models.signal import Answer


def arms(n: int, lost: int, gained: int, wrong: int = 0):
    """``n`` questions, right before, but for ``gained`` and ``wrong``."""
    base = np.ones(n, dtype=bool)
    base[n - gained - wrong :] = False
    patched = base.copy()
    patched[:lost] = False
    patched[n - gained - wrong : n - wrong] = True
    return base, patched


@pytest.mark.parametrize(
    ("n", "lost", "gained", "answer"),
    [
        (500, 0, 0, Answer.BETTER_OR_EQUAL),
        (500, 1, 1, Answer.BETTER_OR_EQUAL),
        (500, 0, 5, Answer.BETTER_OR_EQUAL),
        (500, 5, 0, Answer.WORSE),
        (500, 4, 0, Answer.CANT_TELL),
        # No harm is shown, yet a loss of a point is not excluded either.
        (500, 20, 20, Answer.CANT_TELL),
        # Too few questions to exclude anything, even when all are the same.
        (32, 0, 0, Answer.CANT_TELL),
        # A certain harm far below the margin: for a person to decide.
        (100_000, 20, 0, Answer.CANT_TELL),
    ],
)
def test_answers(n, lost, gained, answer):
    assert accuracy_signal(*arms(n, lost, gained)).answer is answer


def test_numbers_are_those_of_the_questions():
    found = accuracy_signal(*arms(500, 6, 1, wrong=20), base_discordance=0.004)
    numbers = found.numbers
    assert numbers is not None
    assert (numbers.base, numbers.patched) == (479 / 500, 474 / 500)
    assert numbers.effect == pytest.approx(-0.01)
    assert numbers.floor == -0.01
    assert numbers.interval is not None
    assert numbers.interval.low < -0.01 < numbers.interval.high
    assert (numbers.n, numbers.n_of, numbers.noise) == (500, "questions", 0.004)
    assert "6 lost, 1 gained" in found.reason


def test_a_wider_margin_is_easier_to_hold():
    base, patched = arms(32, 0, 0)
    assert accuracy_signal(base, patched, margin=0.1).answer is Answer.BETTER_OR_EQUAL
    assert "needs 268 questions" in accuracy_signal(base, patched).reason


@given(lost=st.integers(0, 30), gained=st.integers(0, 30))
def test_more_losses_never_help(lost, gained):
    rank = [Answer.BETTER_OR_EQUAL, Answer.CANT_TELL, Answer.WORSE]
    now = accuracy_signal(*arms(600, lost, gained)).answer
    then = accuracy_signal(*arms(600, lost + 1, gained)).answer
    assert rank.index(then) >= rank.index(now)


def test_unpaired_questions_are_invalid():
    assert accuracy_signal([True], [True, False]).answer is Answer.INVALID
    assert accuracy_signal([], []).answer is Answer.INVALID


def test_truncation_is_caught_while_accuracy_is_silent():
    base, patched = arms(500, 0, 0)
    some = np.zeros(500, dtype=bool)
    truncated = some.copy()
    truncated[:25] = True
    signals = rate_signals({"truncated": (some, truncated), "empty": (some, some)})
    assert [s.answer for s in signals] == [Answer.WORSE, Answer.BETTER_OR_EQUAL]
    assert accuracy_signal(base, patched).answer is Answer.BETTER_OR_EQUAL


def test_fewer_truncations_are_no_harm():
    some = np.zeros(500, dtype=bool)
    truncated = some.copy()
    truncated[:25] = True
    (signal,) = rate_signals({"truncated": (truncated, some)})
    assert signal.answer is Answer.BETTER_OR_EQUAL


def test_rates_are_adjusted_for_each_other():
    some = np.zeros(500, dtype=bool)
    five = some.copy()
    five[:5] = True
    alone = rate_signals({"empty": (some, five)})
    among = rate_signals({"a": (some, some), "empty": (some, five), "b": (some, some)})
    assert alone[0].answer is Answer.WORSE
    assert among[1].answer is Answer.CANT_TELL


def test_a_rate_that_is_not_paired_is_invalid_alone():
    some = np.zeros(500, dtype=bool)
    signals = {
        s.name: s.answer
        for s in rate_signals({"empty": (some, some[1:]), "truncated": (some, some)})
    }
    assert signals == {"empty": Answer.INVALID, "truncated": Answer.BETTER_OR_EQUAL}
