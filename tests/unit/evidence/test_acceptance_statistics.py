# SPDX-License-Identifier: Apache-2.0
"""Acceptance with the request as the unit: hand sums, properties, the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.statistics.acceptance import (
    Acceptance,
    bootstrap_length_effect,
    decay_change,
    identity_error,
    impossible_counts,
    length_effect,
    length_interval,
    rate_effect,
)


def drawn(
    rng: np.random.Generator, rates: tuple[float, ...], requests: int = 40
) -> Acceptance:
    """Requests of about 30 drafts whose own rates spread around ``rates``."""
    drafts = rng.integers(20, 41, requests)
    left, columns = drafts, []
    for index, rate in enumerate(rates):
        given = rate if index == 0 else rate / rates[index - 1]
        own = np.clip(rng.normal(given, 0.1, requests), 0, 1)
        left = rng.binomial(left, own)
        columns.append(left)
    return Acceptance.of(drafts, np.stack(columns, axis=1))


seeds = st.integers(0, 10_000)


def test_rates_and_length_by_hand():
    arm = Acceptance.of([10, 30], [[9, 5], [21, 7]])
    assert arm.rates == pytest.approx([30 / 40, 12 / 40])
    assert arm.length == pytest.approx(1 + 42 / 40)


@given(seed=seeds)
def test_length_is_one_plus_the_rates(seed):
    arm = drawn(np.random.default_rng(seed), (0.9, 0.6))
    assert identity_error(arm.length, arm.rates) < 1e-12


def test_identity_sees_a_lost_engine():
    assert identity_error(2.5, [0.9, 0.3]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("drafts", "accepted", "says"),
    [
        ([3], [[4]], "more tokens"),
        ([5], [[2, 3]], "later position"),
        ([5, -1], [[2], [0]], "negative"),
    ],
)
def test_impossible_counts_are_named(drafts, accepted, says):
    assert says in impossible_counts(Acceptance.of(drafts, accepted))[0]


def test_possible_counts_pass():
    assert impossible_counts(Acceptance.of([5, 0], [[5, 2], [0, 0]])) == []


@given(seed=seeds)
def test_swapping_the_arms_mirrors(seed):
    rng = np.random.default_rng(seed)
    one, other = drawn(rng, (0.9, 0.5)), drawn(rng, (0.8, 0.5))
    forth, back = length_effect(one, other), length_effect(other, one)
    assert (back.low, back.value, back.high) == pytest.approx(
        (-forth.high, -forth.value, -forth.low)
    )


@given(seed=seeds, factor=st.integers(2, 5))
def test_counting_every_step_more_often_changes_nothing(seed, factor):
    rng = np.random.default_rng(seed)
    one, other = drawn(rng, (0.9,)), drawn(rng, (0.8,))
    more = Acceptance(one.drafts * factor, one.accepted * factor)
    assert length_effect(more, other).low == pytest.approx(
        length_effect(one, other).low
    )


def test_the_same_counts_have_no_effect_and_no_width():
    arm = drawn(np.random.default_rng(5), (0.9, 0.6))
    found = length_effect(arm, arm)
    assert (found.low, found.value, found.high) == (0, 0, 0)
    assert decay_change(arm, arm).value == 0


def test_one_position_is_a_mean_of_ratios_when_requests_are_equal():
    # With equal drafts the ratio estimator is a mean, and the interval Student's.
    accepted = np.array([[3.0], [5.0], [4.0], [8.0]])
    found = length_interval(Acceptance.of([10] * 4, accepted), level=0.95)
    rates = accepted[:, 0] / 10
    half = 3.182446305284263 * rates.std(ddof=1) / 2
    assert found.low == pytest.approx(1 + rates.mean() - half)


def test_pairing_by_prompt_narrows():
    rng = np.random.default_rng(6)
    base = drawn(rng, (0.7, 0.4), 60)
    lost = np.minimum(base.accepted, 1)
    patched = Acceptance(base.drafts, base.accepted - lost)
    shuffled = rng.permutation(60)
    unpaired = Acceptance(patched.drafts[shuffled], patched.accepted[shuffled])
    paired, mixed = length_effect(base, patched), length_effect(base, unpaired)
    assert paired.value == pytest.approx(mixed.value)
    assert paired.high - paired.low < 0.5 * (mixed.high - mixed.low)


def test_delta_method_agrees_with_the_bootstrap():
    rng = np.random.default_rng(7)
    base, patched = drawn(rng, (0.9, 0.6), 120), drawn(rng, (0.85, 0.5), 120)
    delta = length_effect(base, patched)
    draws = bootstrap_length_effect(base, patched)
    assert draws.value == pytest.approx(delta.value)
    assert draws.low == pytest.approx(delta.low, abs=0.003)
    assert draws.high == pytest.approx(delta.high, abs=0.003)


def test_rate_effect_allows_zero():
    base = Acceptance.of([10] * 12, [[9, 4]] * 12)
    gone = Acceptance.of([10] * 12, [[9, 0]] * 12)
    assert rate_effect(base, gone, 1).value == pytest.approx(-0.4)
    assert rate_effect(base, gone, 0).value == 0


def in_time(accepted: list[int]) -> Acceptance:
    return Acceptance.of([10] * len(accepted), [[count] for count in accepted])


def test_decay_is_last_third_over_first_against_the_base():
    steady, falling = in_time([8] * 9), in_time([8, 8, 8, 5, 5, 5, 2, 2, 2])
    found = decay_change(steady, falling)
    assert found.value == pytest.approx(math.log(1.2 / 1.8))
    assert decay_change(falling, falling).value == pytest.approx(0)
    assert decay_change(falling, steady).value == pytest.approx(-found.value)


def test_a_loss_from_the_start_is_no_decay():
    found = decay_change(in_time([8] * 9), in_time([4] * 9))
    assert found.value == pytest.approx(0)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="one row a request"):
        Acceptance.of([1, 2], [[1]])
    with pytest.raises(ValueError, match="no request drafted"):
        Acceptance.of([0, 0], [[0], [0]])
    with pytest.raises(ValueError, match="not paired"):
        length_effect(
            Acceptance.of([1, 2], [[1], [1]]), Acceptance.of([1] * 3, [[1]] * 3)
        )
