# SPDX-License-Identifier: Apache-2.0
"""Paired proportions: published examples, exact sums, and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.statistics.proportions import (
    PairedCounts,
    bootstrap_difference,
    clustered_difference,
    mcnemar_harm,
    mde_difference,
    newcombe,
    pairs_for_margin,
    tango,
)

tables = st.tuples(*[st.integers(0, 60)] * 4).filter(lambda t: sum(t) > 0)
levels = st.sampled_from([0.8, 0.9, 0.95, 0.99])


def counts(both: int, patched_only: int, base_only: int, neither: int) -> PairedCounts:
    """A table in the order of the literature: the later condition first."""
    return PairedCounts(both, base_only, patched_only, neither)


@pytest.mark.parametrize(
    ("table", "level", "low", "high", "digits"),
    [
        # Tango, Statistics in Medicine 17 (1998), the two worked examples.
        ((4, 9, 3, 16), 0.95, -0.027, 0.390, 3),
        ((43, 0, 1, 0), 0.90, -0.096, 0.037, 3),
        # Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014), table of
        # intervals for the airway hyper-responsiveness data of Bentur et al. (2009).
        ((1, 1, 7, 12), 0.95, -0.517, -0.026, 3),
        # PMC10763857 (2023, on continuity corrections), table 2: 2 and 25 of 102.
        ((0, 25, 2, 75), 0.95, 0.139, 0.321, 3),
        # 28 and 25 of 618 by the R package PropCIs, scoreci.mp(25, 28, 618, 0.9).
        ((565, 28, 25, 0), 0.90, -0.0148, 0.0247, 4),
    ],
)
def test_tango_published(table, level, low, high, digits):
    found = tango(counts(*table), level)
    assert round(found.low, digits) == low
    assert round(found.high, digits) == high


@pytest.mark.parametrize(
    ("table", "low", "high", "digits"),
    [
        # Altman et al., Statistics with Confidence (2000), table 6.2.
        ((14, 5, 0, 22), 0.011, 0.226, 3),
        # Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables
        # (2017), chapter 8: Bentur et al. (2009) and Cavo et al. (2012).
        ((1, 1, 7, 12), -0.507, -0.026, 3),
        ((59, 6, 16, 80), -0.1186, -0.0046, 4),
    ],
)
def test_newcombe_published(table, low, high, digits):
    found = newcombe(counts(*table), 0.95)
    assert round(found.low, digits) == low
    assert round(found.high, digits) == high


@given(harmed=st.integers(0, 60), helped=st.integers(0, 60))
def test_mcnemar_is_the_binomial_tail(harmed, helped):
    total = harmed + helped
    tail = sum(math.comb(total, k) for k in range(harmed, total + 1)) / 2**total
    assert mcnemar_harm(harmed, helped) == pytest.approx(tail, rel=1e-9)


def test_mcnemar_published():
    # Bentur et al. (2009), exact two-sided p = 0.0703: 8 discordant pairs, 1 against 7.
    assert 2 * mcnemar_harm(7, 1) == pytest.approx(0.0703, abs=5e-5)


def test_mcnemar_without_discordant_pairs_shows_nothing():
    assert mcnemar_harm(0, 0) == 1


@given(table=tables, level=levels, method=st.sampled_from([tango, newcombe]))
def test_interval_holds_the_estimate_and_stays_in_range(table, level, method):
    found = method(counts(*table), level)
    assert -1 <= found.low <= found.value <= found.high <= 1 + 1e-12


@given(table=tables, level=levels, method=st.sampled_from([tango, newcombe]))
def test_swapping_base_and_patched_mirrors(table, level, method):
    both, gained, lost, neither = table
    one = method(counts(both, gained, lost, neither), level)
    other = method(counts(both, lost, gained, neither), level)
    assert other.low == pytest.approx(-one.high, abs=1e-9)
    assert other.high == pytest.approx(-one.low, abs=1e-9)


@given(table=tables, level=levels, method=st.sampled_from([tango, newcombe]))
def test_counting_the_opposite_event_mirrors(table, level, method):
    both, gained, lost, neither = table
    one = method(counts(both, gained, lost, neither), level)
    other = method(counts(neither, lost, gained, both), level)
    assert other.low == pytest.approx(-one.high, abs=1e-9)


@given(table=tables, method=st.sampled_from([tango, newcombe]))
def test_more_confidence_is_wider(table, method):
    narrow, wide = method(counts(*table), 0.8), method(counts(*table), 0.99)
    assert wide.low <= narrow.low + 1e-12
    assert wide.high >= narrow.high - 1e-12


@given(table=tables, level=levels)
def test_tango_depends_on_discordant_pairs_and_n_only(table, level):
    both, gained, lost, neither = table
    one = tango(counts(both, gained, lost, neither), level)
    other = tango(counts(both + neither, gained, lost, 0), level)
    assert other.low == pytest.approx(one.low, abs=1e-9)


@given(table=tables, level=levels)
def test_one_more_loss_moves_the_tango_interval_down(table, level):
    both, gained, lost, neither = table
    one = tango(counts(both + 1, gained, lost, neither), level)
    other = tango(counts(both, gained, lost + 1, neither), level)
    assert other.low < one.low + 1e-9
    assert other.high < one.high + 1e-9


@given(n=st.integers(1, 2000))
def test_tango_without_discordant_pairs_has_a_closed_form(n):
    z2 = 1.6448536269514722**2
    found = tango(counts(n, 0, 0, 0), 0.9)
    assert found.low == pytest.approx(-z2 / (n + z2), rel=1e-3)


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.1])
def test_pairs_for_margin_is_where_a_pass_begins(margin):
    needed = pairs_for_margin(margin)
    assert tango(counts(needed, 0, 0, 0)).low > -margin
    assert tango(counts(needed - 1, 0, 0, 0)).low <= -margin


@pytest.mark.parametrize(
    ("discordance", "points"),
    [(0.01, 0.68), (0.02, 0.97), (0.03, 1.19), (0.05, 1.53), (0.08, 1.94)],
)
def test_mde_of_all_gsm8k_questions(discordance, points):
    assert 100 * mde_difference(1319, discordance) == pytest.approx(points, abs=0.006)


def test_mde_is_never_below_what_the_exact_test_can_reject():
    assert mde_difference(500, 0.0) == 5 / 500
    assert mcnemar_harm(5, 0) <= 0.05 < mcnemar_harm(4, 0)


def test_bootstrap_agrees_with_the_score_interval_on_many_questions():
    rng = np.random.default_rng(1)
    base = rng.random(1319) < 0.9
    patched = np.where(rng.random(1319) < 0.03, ~base, base)
    score, draws = (
        tango(PairedCounts.of(base, patched)),
        bootstrap_difference(base, patched),
    )
    assert draws.value == pytest.approx(score.value)
    assert draws.low == pytest.approx(score.low, abs=0.001)
    assert draws.high == pytest.approx(score.high, abs=0.001)


def test_bootstrap_of_equal_answers_has_no_width():
    found = bootstrap_difference([True, False], [True, False])
    assert (found.low, found.high) == (0, 0)


def test_repeating_every_question_narrows_nothing():
    rng = np.random.default_rng(2)
    base, patched = rng.random(200) < 0.8, rng.random(200) < 0.7
    once = clustered_difference(base, patched)
    thrice = clustered_difference(np.tile(base, (3, 1)).T, np.tile(patched, (3, 1)).T)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_counts_of_arrays():
    found = PairedCounts.of([1, 1, 0, 0, 1], [1, 0, 1, 0, 1])
    assert found == PairedCounts(both=2, base_only=1, patched_only=1, neither=1)
    assert found.difference == 0
    assert found.discordance == pytest.approx(0.4)


@pytest.mark.parametrize(("base", "patched"), [([], []), ([1, 0], [1]), ([[1]], [[1]])])
def test_what_is_not_paired_is_refused(base, patched):
    with pytest.raises(ValueError, match="pair"):
        PairedCounts.of(base, patched)
