# SPDX-License-Identifier: Apache-2.0
"""The verdict: which signals decide it, and that nothing passes in silence."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ExitCode
from harness.evidence.verdicts import combine, worst
from harness.models.signal import Answer, Exercise, Judgement, Signal, Verdict

ALL_RUN = Exercise(changed=12, executed=12)


def says(answer: Answer, name: str = "accuracy", **more) -> Signal:
    return Signal(name=name, answer=answer, reason="as it was measured", **more)


OK = says(Answer.BETTER_OR_EQUAL)
OPEN = says(Answer.CANT_TELL, "throughput")
FAILED = says(Answer.INVALID, "acceptance")
WORSE = says(Answer.WORSE, "log-probabilities")
EARLY = says(Answer.WORSE, "median TPOT", confirmed=False)

signals = st.lists(
    st.builds(
        Signal,
        name=st.sampled_from(["a", "b", "c"]),
        answer=st.sampled_from(Answer),
        reason=st.just("as it was measured"),
        gated=st.booleans(),
        confirmed=st.booleans(),
    ),
    max_size=6,
)
exercises = st.one_of(
    st.none(),
    st.integers(0, 5).flatmap(
        lambda n: st.builds(Exercise, changed=st.just(n), executed=st.integers(0, n))
    ),
)


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ([OK], Verdict.PASS),
        ([OK, OPEN], Verdict.INCONCLUSIVE),
        ([OK, EARLY], Verdict.INCONCLUSIVE),
        ([OK, FAILED], Verdict.INFRASTRUCTURE),
        ([OPEN, FAILED, EARLY], Verdict.INFRASTRUCTURE),
        ([OK, WORSE], Verdict.REGRESSED),
        ([WORSE, FAILED, OPEN], Verdict.REGRESSED),
        ([], Verdict.INFRASTRUCTURE),
    ],
)
def test_verdicts(given, verdict):
    for order in itertools.permutations(given):
        assert combine(order, ALL_RUN).verdict is verdict


def test_who_caught_it_and_who_stayed_silent():
    found = combine([OK, WORSE, OPEN, FAILED, EARLY], ALL_RUN)
    assert found.caught_by == ("log-probabilities",)
    assert found.silent == ("accuracy",)
    assert found.undecided == ("median TPOT", "throughput")
    assert found.failed == ("acceptance",)
    assert found.reasons[0] == "log-probabilities: as it was measured"


def test_what_nothing_executed_does_not_pass():
    found = combine([OK], Exercise(changed=12, executed=0))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "not exercised" in found.reasons[0]


def test_what_is_not_known_to_be_executed_does_not_pass():
    assert combine([OK], None).verdict is Verdict.INCONCLUSIVE


def test_unexecuted_lines_are_told_with_a_pass():
    found = combine([OK], Exercise(changed=12, executed=9))
    assert found.verdict is Verdict.PASS
    assert "3 of 12 changed lines were not executed" in found.reasons


def test_harm_counts_even_where_no_line_was_seen_to_run():
    found = combine([WORSE], Exercise(changed=12, executed=0))
    assert found.verdict is Verdict.REGRESSED
    assert "not exercised" in found.reasons[-1]


def test_ungated_signals_decide_nothing():
    shown = says(Answer.WORSE, "p99", gated=False)
    assert combine([OK, shown], ALL_RUN) == combine([OK], ALL_RUN)
    assert combine([shown], ALL_RUN).verdict is Verdict.INFRASTRUCTURE


@given(given_signals=signals, exercise=exercises)
def test_no_pass_without_evidence_and_no_regression_without_a_confirmed_harm(
    given_signals, exercise
):
    found = combine(given_signals, exercise)
    gated = [s for s in given_signals if s.gated]
    harmed = any(s.answer is Answer.WORSE and s.confirmed for s in gated)
    assert (found.verdict is Verdict.REGRESSED) == harmed
    if found.verdict is Verdict.PASS:
        assert gated
        assert all(s.answer is Answer.BETTER_OR_EQUAL for s in gated)
        assert exercise is not None
        assert exercise.executed or not exercise.changed
    assert found.reasons
    assert Judgement.model_validate_json(found.model_dump_json()) == found


@given(given_signals=signals, exercise=exercises, extra=signals)
def test_more_evidence_never_turns_a_bad_verdict_into_a_pass(
    given_signals, exercise, extra
):
    before = combine(given_signals, exercise).verdict
    after = combine([*given_signals, *extra], exercise).verdict
    if before in (Verdict.REGRESSED, Verdict.INCONCLUSIVE):
        assert after is not Verdict.PASS


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ([], Verdict.INFRASTRUCTURE),
        ([Verdict.PASS, Verdict.PASS], Verdict.PASS),
        ([Verdict.PASS, Verdict.INCONCLUSIVE], Verdict.INCONCLUSIVE),
        ([Verdict.INCONCLUSIVE, Verdict.INFRASTRUCTURE], Verdict.INFRASTRUCTURE),
        ([Verdict.INFRASTRUCTURE, Verdict.REGRESSED], Verdict.REGRESSED),
    ],
)
def test_the_worst_verdict_speaks_for_the_run(given, verdict):
    assert worst(given) is verdict


def test_exit_codes():
    assert {v: v.exit_code for v in Verdict} == {
        Verdict.PASS: ExitCode.PASS,
        Verdict.REGRESSED: ExitCode.REGRESSED,
        Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
        Verdict.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
    }
