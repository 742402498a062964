# SPDX-License-Identifier: Apache-2.0
"""Speed: three answers, several metrics, noise, confirmation, and the plan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.gates.serving import (
    Blocks,
    Metric,
    confirm,
    plan,
    serving_signals,
    suspected,
)
from harness.models.signal import Answer

THROUGHPUT = Metric("throughput", "tokens/s", higher_is_better=True, floor=0.02)
TPOT = Metric("median TPOT", "ms", higher_is_better=False, floor=0.03)
TTFT = Metric("median TTFT", "ms", higher_is_better=False, floor=0.03)
ITL = Metric("median ITL", "ms", higher_is_better=False, floor=0.03, gated=False)

WIGGLE = np.array([0.004, -0.003, 0.001, -0.004, 0.002, 0.003, -0.002, -0.001])


def measured(metric: Metric, ratio: float, pairs: int, noise: float = 1.0) -> Blocks:
    """Pairs around a ratio, spread by about 0.3% times ``noise``."""
    base = 100 * np.exp(WIGGLE[:pairs][::-1] * 3)
    patched = base * ratio * np.exp(WIGGLE[:pairs] * noise)
    return Blocks(metric, list(base), list(patched))


def answers(*blocks: Blocks, **options) -> list[Answer]:
    return [signal.answer for signal in serving_signals(blocks, **options)]


@pytest.mark.parametrize(
    ("ratio", "pairs", "answer"),
    [
        (1.0, 5, Answer.BETTER_OR_EQUAL),
        (1.3, 5, Answer.BETTER_OR_EQUAL),
        (0.7, 5, Answer.WORSE),
        (0.7, 3, Answer.WORSE),
        # Significant, but smaller than what matters: excluded or not, never "worse".
        (0.99, 5, Answer.BETTER_OR_EQUAL),
        (0.981, 5, Answer.CANT_TELL),
    ],
)
def test_answers(ratio, pairs, answer):
    assert answers(measured(THROUGHPUT, ratio, pairs)) == [answer]


@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.3])
def test_latency_is_throughput_upside_down(ratio):
    up = Metric("m", "x", higher_is_better=True, floor=0.02)
    down = Metric("m", "x", higher_is_better=False, floor=0.02)
    block = measured(up, ratio, 6)
    mirrored = Blocks(down, block.patched, block.base)
    assert answers(block) == answers(Blocks(down, *_inverse(block)))
    assert answers(mirrored) == answers(block)


def _inverse(block: Blocks) -> tuple[list[float], list[float]]:
    return [1 / x for x in block.base], [1 / x for x in block.patched]


@given(scale=st.floats(1e-3, 1e3), ratio=st.sampled_from([0.9, 0.98, 1.0, 1.1]))
def test_the_unit_does_not_matter(scale, ratio):
    block = measured(TPOT, ratio, 5)
    scaled = Blocks(
        TPOT, [scale * x for x in block.base], [scale * x for x in block.patched]
    )
    one, other = serving_signals([block])[0], serving_signals([scaled])[0]
    assert one.answer is other.answer
    assert one.numbers is not None
    assert other.numbers is not None
    assert one.numbers.p == pytest.approx(other.numbers.p)
    assert one.numbers.effect == pytest.approx(other.numbers.effect)


def test_noise_without_an_effect_is_never_worse_and_may_stay_open():
    assert answers(measured(THROUGHPUT, 1.0, 5, noise=30)) == [Answer.CANT_TELL]


def test_worse_waits_for_its_confirmation():
    (first,) = serving_signals([measured(THROUGHPUT, 0.7, 5)])
    (again,) = serving_signals([measured(THROUGHPUT, 0.75, 3)])
    (fine,) = serving_signals([measured(THROUGHPUT, 1.0, 3)])
    (broken,) = serving_signals([Blocks(THROUGHPUT, [1.0, 1.0], [1.0, 0.0])])
    assert not first.confirmed
    assert confirm(first, again).confirmed
    assert confirm(first, again).answer is Answer.WORSE
    assert confirm(first, fine).answer is Answer.CANT_TELL
    assert not confirm(first, broken).confirmed
    assert confirm(fine, again) == fine


def test_one_bad_metric_among_three_is_found_and_the_others_stay_silent():
    found = answers(
        measured(THROUGHPUT, 1.0, 5), measured(TPOT, 1.5, 5), measured(TTFT, 1.0, 5)
    )
    assert found == [Answer.BETTER_OR_EQUAL, Answer.WORSE, Answer.BETTER_OR_EQUAL]


def test_holm_makes_a_weak_harm_among_many_wait():
    weak = [-0.05, -0.09, -0.02, -0.03, -0.12]
    block = Blocks(THROUGHPUT, [1.0] * 5, list(np.exp(weak)))
    quiet = [Metric(f"m{i}", "x", higher_is_better=True, floor=0.02) for i in range(8)]
    assert answers(block) == [Answer.WORSE]
    assert answers(block, *[measured(m, 1.0, 5) for m in quiet])[0] is Answer.CANT_TELL


def test_an_outlier_fools_the_t_test_but_not_the_sign_flip():
    # One block in five does not lose: the exact p is 2/32, above 5%.
    logs = [-0.30, -0.28, -0.31, -0.29, 0.001]
    (signal,) = serving_signals([Blocks(THROUGHPUT, [1.0] * 5, list(np.exp(logs)))])
    assert signal.answer is Answer.CANT_TELL
    assert "sign flip p=0.0625" in signal.reason


def test_what_base_against_base_shows_is_not_blamed_on_the_patch():
    block = measured(THROUGHPUT, 0.95, 5)
    noisy = {"throughput": [0.1, -0.12, 0.09, -0.08, 0.02]}
    (signal,) = serving_signals([block], noise=noisy)
    assert signal.answer is Answer.CANT_TELL
    assert "base against base" in signal.reason
    assert answers(block, noise={"throughput": WIGGLE}) == [Answer.WORSE]


def test_ungated_metrics_are_shown_and_take_no_part():
    (signal,) = serving_signals([measured(ITL, 1.5, 5)])
    assert not signal.gated
    alone = serving_signals([measured(THROUGHPUT, 0.7, 5)])[0]
    beside = serving_signals([measured(THROUGHPUT, 0.7, 5), measured(ITL, 1.5, 5)])[0]
    assert alone == beside


def test_zeros_are_a_failed_measurement_never_a_win():
    zeros = Blocks(TPOT, [10.0] * 5, [0.0] * 5)
    assert answers(zeros, measured(TTFT, 1.0, 5)) == [
        Answer.INVALID,
        Answer.BETTER_OR_EQUAL,
    ]


def test_a_failed_metric_still_counts_in_the_family():
    weak = [-0.05, -0.09, -0.02, -0.03, -0.12]
    block = Blocks(THROUGHPUT, [1.0] * 5, list(np.exp(weak)))
    failed = [
        Blocks(Metric(f"m{i}", "x", True, 0.02), [1.0] * 5, [0.0] * 5) for i in range(8)
    ]
    assert answers(block, *failed)[0] is Answer.CANT_TELL


def test_one_pair_has_no_interval():
    (signal,) = serving_signals([measured(THROUGHPUT, 0.5, 1)])
    assert signal.answer is Answer.CANT_TELL
    assert signal.numbers is not None
    assert signal.numbers.interval is None


def test_one_pair_is_suspected_beyond_floor_and_expected_spread_only():
    def looks(ratio: float, spread: float) -> bool:
        block = Blocks(TPOT, [100.0], [100.0 * ratio])
        (signal,) = serving_signals([block], spread=spread)
        return suspected(signal)

    assert looks(1.05, 0.0)
    assert not looks(1.05, 0.05)
    assert looks(1.10, 0.05)
    (signal,) = serving_signals([Blocks(THROUGHPUT, [100.0], [95.0])], spread=0.05)
    assert not suspected(signal)
    (signal,) = serving_signals([Blocks(THROUGHPUT, [100.0], [90.0])], spread=0.05)
    assert suspected(signal)


def test_numbers_are_ratios():
    (signal,) = serving_signals([measured(TPOT, 1.5, 5)])
    numbers = signal.numbers
    assert numbers is not None
    assert numbers.effect == pytest.approx(1.5, rel=0.01)
    assert numbers.patched == pytest.approx(numbers.base * numbers.effect)
    assert numbers.floor == pytest.approx(1.03)
    assert numbers.mde is not None
    assert numbers.mde > 1
    (signal,) = serving_signals([measured(THROUGHPUT, 1.0, 5)])
    assert signal.numbers is not None
    assert signal.numbers.floor == pytest.approx(1 / 1.02)


def test_plan_tells_before_the_run_what_it_can_show():
    few, many = plan(3, 0.02), plan(8, 0.02)
    assert many.finds < few.finds
    assert many.calls_equal < few.calls_equal
    assert plan(1, 0.02).finds == math.inf
    assert "only raise a suspicion" in plan(1, 0.02).line(0.02, 0.02)
    assert "can't call no change equal" in few.line(0.02, 0.02)
    assert "can call no change equal" in many.line(0.02, 0.02)
    assert plan(5, 0.02, metrics=1).finds < plan(5, 0.02, metrics=3).finds
