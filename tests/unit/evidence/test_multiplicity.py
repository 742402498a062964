# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.statistics.multiplicity import holm

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def test_by_hand():
    # Sorted .005 .01 .03 .04, times 4 3 2 1, never falling: .02 .03 .06 .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p=probabilities)
def test_between_the_raw_and_bonferroni(p):
    for raw, adjusted in zip(p, holm(p), strict=True):
        assert raw <= adjusted <= min(1, raw * len(p)) + 1e-12


@given(p=probabilities, data=st.data())
def test_order_does_not_matter(p, data):
    order = data.draw(st.permutations(range(len(p))))
    shuffled = holm([p[i] for i in order])
    assert shuffled == pytest.approx([holm(p)[i] for i in order])


@given(p=probabilities)
def test_keeps_the_order_of_the_raw_values(p):
    pairs = sorted(zip(p, holm(p), strict=True))
    adjusted = [value for _, value in pairs]
    assert adjusted == sorted(adjusted)


def test_nothing_and_nonsense():
    assert holm([]) == []
    with pytest.raises(ValueError, match="probabilities"):
        holm([0.5, float("nan")])
