# SPDX-License-Identifier: Apache-2.0
"""Effects over pairs of server starts: tables, enumeration, and properties."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.statistics import blocks

values = st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 6))
logs = st.lists(values, min_size=2, max_size=9)
positive = st.floats(0.1, 1e6)


@given(pairs=st.lists(st.tuples(positive, positive), min_size=1), scale=positive)
def test_log_ratios_do_not_depend_on_the_unit(pairs, scale):
    base, patched = np.array(pairs).T
    assert blocks.log_ratios(base * scale, patched * scale) == pytest.approx(
        blocks.log_ratios(base, patched), abs=1e-9
    )


@given(pairs=st.lists(st.tuples(positive, positive), min_size=1))
def test_log_ratios_mirror_when_the_arms_are_swapped(pairs):
    base, patched = np.array(pairs).T
    assert blocks.log_ratios(patched, base) == pytest.approx(
        -blocks.log_ratios(base, patched)
    )


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_what_has_no_ratio_is_refused(bad):
    with pytest.raises(ValueError, match="positive, finite"):
        blocks.log_ratios([1.0, 2.0], [1.0, bad])


def test_interval_is_students():
    # Student, Biometrika 6 (1908): additional hours of sleep; mean 1.58, sd 1.23 and
    # t(9) = 2.262 at 95% give 0.70 and 2.46.
    hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    found = blocks.mean_interval(hours, level=0.95)
    assert (round(found.low, 2), round(found.high, 2)) == (0.70, 2.46)


def test_ratio_interval_is_on_the_ratio_scale():
    found = blocks.ratio_interval(np.log([1.1, 1.1, 1.1]))
    assert (found.low, found.value, found.high) == pytest.approx((1.1, 1.1, 1.1))


@given(d=logs)
def test_sign_flip_is_the_enumeration(d):
    means = [
        np.mean(np.array(signs) * d)
        for signs in itertools.product((1, -1), repeat=len(d))
    ]
    observed = np.mean(d)
    below = float(np.mean(np.array(means) <= observed + 1e-12))
    assert blocks.sign_flip(d, "less") == pytest.approx(below)


@given(d=logs, scale=st.floats(0.01, 100))
def test_sign_flip_does_not_depend_on_scale_and_mirrors(d, scale):
    scaled = np.array(d) * scale
    assert blocks.sign_flip(scaled, "less") == pytest.approx(
        blocks.sign_flip(-scaled, "greater")
    )
    assert blocks.sign_flip(scaled, "less") == pytest.approx(
        blocks.sign_flip(d, "less")
    )


@pytest.mark.parametrize("k", range(1, 9))
def test_sign_flip_smallest_p(k):
    harm = -np.linspace(1, 2, k)
    assert blocks.sign_flip(harm, "less") == pytest.approx(2.0**-k)
    assert blocks.sign_flip(harm) == pytest.approx(2.0 ** (1 - k))
    assert blocks.smallest_p(k) == 2.0**-k


def test_sign_flip_fisher():
    # Fisher, The Design of Experiments (1935), section 21: Darwin's maize, differences
    # in eighths of an inch; 863 of 32768 arrangements are at least as large one-sided.
    maize = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert blocks.sign_flip(maize, "greater") * 2**15 == pytest.approx(863)


@pytest.mark.parametrize(
    ("sd", "four", "six"),
    [(0.005, 0.8, 0.6), (0.01, 1.7, 1.2), (0.02, 3.3, 2.4), (0.04, 6.6, 4.7)],
)
def test_mde_table(sd, four, six):
    # The table is by the usual approximation, the sum of two t quantiles.
    assert 100 * blocks.mde(4, sd) == pytest.approx(four, abs=0.06)
    assert 100 * blocks.mde(6, sd) == pytest.approx(six, abs=0.06)


@given(k=st.integers(2, 20), sd=st.floats(1e-4, 0.5))
def test_mde_falls_with_pairs_and_grows_with_spread(k, sd):
    assert blocks.mde(k + 1, sd) < blocks.mde(k, sd)
    assert blocks.mde(k, 2 * sd) == pytest.approx(2 * blocks.mde(k, sd))


def test_mde_of_one_pair_is_unbounded():
    assert blocks.mde(1, 0.01) == math.inf


def test_noise_floor_shrinks_with_the_pairs_compared():
    base = [0.01, -0.02, 0.015, -0.01, 0.0]
    few, many = blocks.noise_floor(base, 2), blocks.noise_floor(base, 8)
    assert few.sd == pytest.approx(np.std(base, ddof=1))
    assert many.reach == pytest.approx(few.reach / 2)


def test_noise_floor_shows_arms_that_differ_by_place():
    assert blocks.noise_floor([0.05, 0.051, 0.049], 3).observed.low > 0


@given(effect=values, slot=values)
def test_slot_effect_is_told_from_the_patch(effect, slot):
    base_first = np.array([True, False, True, False])
    d = effect + np.where(base_first, slot, -slot)
    noisy = d + np.array([1e-3, 1e-3, -1e-3, -1e-3])
    found = blocks.slot_effect(noisy, base_first)
    assert found.value == pytest.approx(slot, abs=1e-9)
    assert found.low < slot < found.high


def test_slot_effect_needs_both_orders():
    with pytest.raises(ValueError, match="both orders"):
        blocks.slot_effect([0.1, 0.2, 0.3], [True, True, True])


@given(
    a=st.lists(values, min_size=1, max_size=6),
    b=st.lists(values, min_size=1, max_size=6),
)
def test_cliffs_delta(a, b):
    assert blocks.cliffs_delta(a, b) == pytest.approx(-blocks.cliffs_delta(b, a))
    assert blocks.cliffs_delta(a, np.array(a) + 3) == 1


def test_t_harm_without_spread():
    assert blocks.t_harm([-0.1, -0.1]) == 0
    assert blocks.t_harm([0.0, 0.0]) == 1
