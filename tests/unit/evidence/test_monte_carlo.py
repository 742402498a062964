# SPDX-License-Identifier: Apache-2.0
"""Do the procedures hold the error rates that they state? Simulated, with fixed seeds.

Each rate is held to its stated level plus four standard errors of the simulation, and,
where the procedure is exact, not below by more than discreteness explains. A power
check beside each false-alarm check keeps a procedure that never speaks from passing.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from harness.evidence.gates.acceptance import acceptance_signals
from harness.evidence.gates.accuracy import accuracy_signal
from harness.evidence.gates.serving import Blocks, Metric, confirm, serving_signals
from harness.evidence.statistics import blocks
from harness.evidence.statistics.acceptance import (
    Acceptance,
    decay_change,
    length_effect,
)
from harness.evidence.statistics.multiplicity import holm
from harness.evidence.statistics.proportions import (
    PairedCounts,
    clustered_difference,
    mcnemar_harm,
    mde_difference,
    newcombe,
    tango,
)
from harness.models.signal import Answer

pytestmark = pytest.mark.slow

ALPHA = 0.05


def at_most(rate: float, level: float, runs: int, slack: float = 0.0) -> bool:
    """Whether ``rate`` of ``runs`` is compatible with a true rate of ``level``."""
    return rate <= level + slack + 4 * math.sqrt(level * (1 - level) / runs)


# --- the same questions before and after ---------------------------------------------


@functools.cache
def _interval(method, n: int, gained: int, lost: int):
    both = (n - gained - lost) * 9 // 10
    return method(PairedCounts(both, lost, gained, n - gained - lost - both), 0.9)


def _intervals(method, n: int, gained, lost):
    pairs = zip(gained.tolist(), lost.tolist(), strict=True)
    return [_interval(method, n, *pair) for pair in pairs]


def flips(rng, n: int, difference: float, discordance: float, runs: int):
    """(gained, lost) of ``runs`` experiments with these true rates."""
    gain, loss = (discordance + difference) / 2, (discordance - difference) / 2
    drawn = rng.multinomial(n, [gain, loss, 1 - gain - loss], size=runs)
    return drawn[:, 0], drawn[:, 1]


@pytest.mark.parametrize("method", [tango, newcombe])
@pytest.mark.parametrize("n", [200, 500, 1319])
@pytest.mark.parametrize(
    ("difference", "discordance"),
    [(0.0, 0.02), (0.0, 0.08), (-0.01, 0.03), (-0.03, 0.05)],
)
def test_paired_intervals_cover(method, n, difference, discordance):
    runs = 2000
    rng = np.random.default_rng(1)
    gained, lost = flips(rng, n, difference, discordance, runs)
    found = [
        _interval(method, n, int(g), int(x)) for g, x in zip(gained, lost, strict=True)
    ]
    missed = np.mean([not e.low <= difference <= e.high for e in found])
    # Score and square-and-add intervals are approximate: within two points of 90%.
    assert at_most(missed, 0.10, runs, slack=0.02)


@pytest.mark.parametrize("n", [500, 1319])
@pytest.mark.parametrize("discordance", [0.01, 0.02, 0.04, 0.08])
def test_a_loss_of_the_margin_rarely_passes(n, discordance):
    runs = 4000
    rng = np.random.default_rng(2)
    gained, lost = flips(rng, n, -0.01, discordance, runs)
    passed = np.mean(
        [
            _interval(tango, n, int(g), int(x)).low > -0.01
            for g, x in zip(gained, lost, strict=True)
        ]
    )
    assert at_most(passed, ALPHA, runs, slack=0.01)


def test_no_loss_mostly_passes_where_the_answers_hardly_flip():
    rng = np.random.default_rng(3)
    gained, lost = flips(rng, 1319, 0.0, 0.01, 2000)
    found = _intervals(tango, 1319, gained, lost)
    passed = np.mean([e.low > -0.01 for e in found])
    assert passed > 0.9


@pytest.mark.parametrize("discordance", [0.01, 0.03, 0.1])
def test_mcnemar_rarely_alarms_and_finds_what_its_mde_says(discordance):
    runs, n = 4000, 1319
    rng = np.random.default_rng(4)
    test = functools.cache(lambda lost, gained: mcnemar_harm(lost, gained) <= ALPHA)

    def rejected(difference: float) -> float:
        gained, lost = flips(rng, n, difference, discordance, runs)
        return float(
            np.mean([test(int(x), int(g)) for g, x in zip(gained, lost, strict=True)])
        )

    assert at_most(rejected(0.0), ALPHA, runs)
    found = mde_difference(n, discordance)
    # Exactness costs power: the approximation promises 80%.
    assert rejected(-found) > 0.65
    assert rejected(-1.3 * found) > 0.8 or discordance <= 1.3 * found


def test_the_accuracy_gate_on_a_tree_that_changed_nothing():
    runs, n = 300, 500
    rng = np.random.default_rng(5)
    answers = []
    for _ in range(runs):
        # A few questions are close calls, decided anew in each arm.
        sure, close = rng.random(n) < 0.9, rng.random(n) < 0.03
        base = np.where(close, rng.random(n) < 0.5, sure)
        patched = np.where(close, rng.random(n) < 0.5, sure)
        answers.append(accuracy_signal(base, patched).answer)
    assert at_most(answers.count(Answer.WORSE) / runs, ALPHA, runs)


def test_repeats_of_a_question_are_not_questions():
    runs, questions, repeats = 1500, 60, 8
    rng = np.random.default_rng(6)
    missed = naive = 0
    for _ in range(runs):
        # What a question does to the difference is shared by all of its repeats.
        shift = np.where(rng.random(questions) < 0.5, 0.2, -0.2)[:, None]
        base = rng.random((questions, repeats)) < 0.5 - shift / 2
        patched = rng.random((questions, repeats)) < 0.5 + shift / 2
        found = clustered_difference(base, patched)
        missed += not found.low <= 0 <= found.high
        flat = clustered_difference(base.ravel(), patched.ravel())
        naive += not flat.low <= 0 <= flat.high
    assert at_most(missed / runs, 0.10, runs, slack=0.005)
    assert naive / runs > 0.13


# --- pairs of server starts ----------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_t_interval_covers(k):
    runs = 2000
    rng = np.random.default_rng(7)
    found = [blocks.mean_interval(d) for d in rng.normal(0.03, 0.02, (runs, k))]
    missed = np.mean([not e.low <= 0.03 <= e.high for e in found])
    assert at_most(missed, 0.10, runs)
    assert missed > 0.07


@pytest.mark.parametrize("draw", ["normal", "heavy tails", "two modes"])
def test_sign_flip_holds_its_level_whatever_the_distribution(draw):
    runs, k = 1000, 6
    rng = np.random.default_rng(8)
    d = {
        "normal": lambda: rng.normal(0, 1, (runs, k)),
        "heavy tails": lambda: rng.standard_t(1.5, (runs, k)),
        "two modes": lambda: rng.choice([-1, 1], (runs, k))
        + rng.normal(0, 0.1, (runs, k)),
    }[draw]()
    alarms = np.mean([blocks.sign_flip(row, "less") <= ALPHA for row in d])
    # Of 64 arrangements three are at most 5%.
    assert at_most(alarms, 3 / 64, runs)
    assert alarms > 0.02


@pytest.mark.parametrize("k", [3, 5, 8])
def test_mde_is_found_four_times_in_five(k):
    runs = 2000
    rng = np.random.default_rng(9)
    harm = rng.normal(-blocks.mde(k, 0.02), 0.02, (runs, k))
    power = np.mean([blocks.t_harm(d) <= ALPHA for d in harm])
    assert abs(power - 0.8) < 4 * math.sqrt(0.16 / runs)


def test_slot_effect_covers():
    runs, k = 500, 6
    rng = np.random.default_rng(10)
    first = np.resize([True, False], k)
    d = rng.normal(0.05, 0.02, (runs, k)) + np.where(first, 0.01, -0.01)
    found = [blocks.slot_effect(row, first, level=0.9) for row in d]
    missed = np.mean([not e.low <= 0.01 <= e.high for e in found])
    assert at_most(missed, 0.10, runs)


def test_holm_holds_the_family():
    runs, tests = 20_000, 3
    p = np.random.default_rng(11).random((runs, tests))
    alarms = np.mean([min(holm(list(row))) <= ALPHA for row in p])
    assert at_most(alarms, ALPHA, runs)
    assert alarms > 0.045


METRICS = [
    Metric("throughput", "tokens/s", higher_is_better=True, floor=0.02),
    Metric("median TPOT", "ms", higher_is_better=False, floor=0.03),
    Metric("median TTFT", "ms", higher_is_better=False, floor=0.03),
]


def served(rng, k: int, sd: float, harm: float, correlation: float = 0.8):
    """Three metrics of ``k`` pairs: blocks spread by ``sd``, all hurt by ``harm``."""
    shared = rng.normal(0, 1, k)
    measured = []
    for metric in METRICS:
        own = rng.normal(0, 1, k)
        d = sd * (math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own)
        d = d - harm
        base = np.exp(rng.normal(3, 0.3, k))
        sign = 1 if metric.higher_is_better else -1
        measured.append(Blocks(metric, list(base), list(base * np.exp(sign * d))))
    return serving_signals(measured)


@pytest.mark.parametrize("k", [3, 5, 8])
@pytest.mark.parametrize("sd", [0.01, 0.05])
def test_base_against_base_is_rarely_worse_and_never_after_confirmation(k, sd):
    runs = 200
    rng = np.random.default_rng(12)
    alarms = confirmed = 0
    for _ in range(runs):
        first = served(rng, k, sd, 0.0)
        if any(s.answer is Answer.WORSE for s in first):
            alarms += 1
            again = served(rng, k, sd, 0.0)
            settled = [confirm(a, b) for a, b in zip(first, again, strict=True)]
            confirmed += any(s.answer is Answer.WORSE for s in settled)
    assert at_most(alarms / runs, ALPHA, runs)
    assert confirmed <= 3


@pytest.mark.parametrize("k", [3, 5])
def test_a_harm_of_the_floor_is_rarely_called_equal(k):
    runs = 250
    rng = np.random.default_rng(13)
    equal = np.zeros(len(METRICS))
    for _ in range(runs):
        harm = METRICS[0].log_floor
        signals = served(rng, k, 0.01, harm)
        equal += [s.answer is Answer.BETTER_OR_EQUAL for s in signals]
    assert at_most(equal[0] / runs, ALPHA, runs)


def test_a_large_harm_is_found_and_no_harm_is_called_equal():
    runs = 100
    rng = np.random.default_rng(14)
    worse = [served(rng, 5, 0.02, 0.15)[0].answer for _ in range(runs)]
    equal = [served(rng, 5, 0.005, 0.0)[0].answer for _ in range(runs)]
    assert worse.count(Answer.WORSE) / runs > 0.95
    assert equal.count(Answer.BETTER_OR_EQUAL) / runs > 0.95


# --- acceptance ----------------------------------------------------------------------


def drafted(rng, own, requests: int) -> Acceptance:
    """Requests whose own acceptance rates are ``own``, shape (requests, positions)."""
    drafts = rng.integers(10, 60, requests)
    left, columns = drafts, []
    for given in own.T:
        left = rng.binomial(left, given)
        columns.append(left)
    return Acceptance.of(drafts, np.stack(columns, axis=1))


def own_rates(rng, requests: int, first: float, second: float):
    """Rates that differ from request to request (beta, spread about 0.1)."""
    return np.stack(
        [rng.beta(12 * p, 12 * (1 - p), requests) for p in (first, second)], axis=1
    )


@pytest.mark.parametrize("requests", [20, 60])
def test_length_effect_covers(requests):
    runs = 1500
    rng = np.random.default_rng(15)
    missed = naive = 0
    for _ in range(runs):
        base = drafted(rng, own_rates(rng, requests, 0.9, 0.6), requests)
        patched = drafted(rng, own_rates(rng, requests, 0.9, 0.6), requests)
        found = length_effect(base, patched)
        missed += not found.low <= 0 <= found.high
        # Counting each token as independent: the spread between requests is lost.
        variance = sum(
            np.sum(a.rates * (1 - a.rates)) / a.drafts.sum() / a.length**2
            for a in (base, patched)
        )
        naive += abs(found.value) > 1.645 * math.sqrt(variance)
    assert at_most(missed / runs, 0.10, runs, slack=0.01)
    assert naive / runs > 0.15


def test_decay_change_covers():
    runs, requests = 1500, 24
    rng = np.random.default_rng(17)
    missed = 0
    for _ in range(runs):
        own = own_rates(rng, requests, 0.9, 0.6)
        found = decay_change(
            drafted(rng, own, requests), drafted(rng, own * 0.9, requests)
        )
        missed += not found.low <= 0 <= found.high
    # A loss from the start is about the same in each third.
    assert at_most(missed / runs, 0.10, runs, slack=0.01)


def test_the_acceptance_gate_on_a_draft_that_changed_nothing_and_on_one_that_did():
    runs, requests = 400, 40
    rng = np.random.default_rng(16)
    alarms = caught = 0
    for _ in range(runs):
        own = own_rates(rng, requests, 0.95, 0.6)
        base = drafted(rng, own, requests)
        same = acceptance_signals(base, drafted(rng, own, requests))
        hurt = acceptance_signals(base, drafted(rng, own * 0.85, requests))
        alarms += any(s.answer is Answer.WORSE for s in same)
        caught += any(s.answer is Answer.WORSE for s in hurt)
    assert at_most(alarms / runs, ALPHA, runs)
    assert caught / runs > 0.95
