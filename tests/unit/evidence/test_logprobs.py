# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.statistics.logprobs import GreedyAnswer, compare

answers = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.floats(-9, 0)), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
).map(lambda rows: [GreedyAnswer([t for t, _ in r], [p for _, p in r]) for r in rows])


@given(one=answers)
def test_the_same_answers_do_not_differ(one):
    found = compare(one, one)
    assert (found.largest, found.mean, found.diverged) == (0, 0, 0)


@given(one=answers, shift=st.floats(1e-6, 1))
def test_a_shift_is_seen_as_it_is(one, shift):
    moved = [GreedyAnswer(a.tokens, [p - shift for p in a.logprobs]) for a in one]
    found = compare(one, moved)
    assert found.largest == pytest.approx(shift, abs=1e-9)
    assert found.mean == pytest.approx(shift, abs=1e-9)


def test_nothing_counts_behind_the_first_differing_token():
    base = [GreedyAnswer([1, 2, 3], [-0.1, -0.2, -0.3])]
    patched = [GreedyAnswer([1, 9, 3], [-0.1, -0.25, -7.0])]
    found = compare(base, patched)
    assert found.tokens == 2
    assert found.largest == pytest.approx(0.05)
    assert found.diverged == 1


def test_a_shorter_answer_has_diverged():
    found = compare([GreedyAnswer([1, 2], [-0.1, -0.2])], [GreedyAnswer([1], [-0.1])])
    assert (found.tokens, found.diverged) == (1, 1)


def test_a_patched_value_that_is_no_number_is_infinitely_far():
    found = compare([GreedyAnswer([1], [-0.1])], [GreedyAnswer([1], [math.nan])])
    assert found.largest == math.inf


@pytest.mark.parametrize(
    ("base", "patched", "says"),
    [
        ([], [], "no token"),
        ([GreedyAnswer([1], [-0.1])], [], "not paired"),
        ([GreedyAnswer([1], [math.nan])], [GreedyAnswer([1], [-0.1])], "not finite"),
        ([GreedyAnswer([1], [])], [GreedyAnswer([1], [-0.1])], "for each token"),
    ],
)
def test_what_can_not_be_compared_is_refused(base, patched, says):
    with pytest.raises(ValueError, match=says):
        compare(base, patched)
