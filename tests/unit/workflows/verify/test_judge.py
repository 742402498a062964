# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from harness.evidence.verdicts import combine
from harness.models.gates import Gates
from harness.models.noise import Noise
from harness.models.profile import AccuracyCell
from harness.models.signal import Answer, Exercise, Signal, Verdict
from harness.workflows.verify.judge import (
    Arms,
    StateFacts,
    again_name,
    compare,
    speed_logs,
    suspects,
)
from harness.workflows.verify.machine import machine
from harness.workflows.verify.states import TIMING
from tests.support.facts import answer, boot, right_answers
from tests.support.servers import SETUP

NAME = "base-0001"
RAN = Exercise(changed=3, executed=3)


def _state(
    *, speeds: tuple[float, ...] = (100.0, 101.0), again: tuple[float, ...] = ()
) -> StateFacts:
    timings = {(TIMING, n): boot(speed=s) for n, s in enumerate(speeds, 1)}
    repeated = {(again_name(NAME), n): boot(speed=s) for n, s in enumerate(again, 1)}
    return StateFacts(
        answers=boot(answers=right_answers(), accepted=[38] * 20),
        timings=timings | repeated,
    )


def _compare(
    before: StateFacts, after: StateFacts, *, gates: Gates | None = None
) -> list[Signal]:
    return compare(Arms(NAME, SETUP, gates or Gates(), False, before, after))


def _named(signals: list[Signal], part: str) -> Signal:
    return next(s for s in signals if part in s.name)


def test_equal_states_pass_where_speed_only_accuses() -> None:
    signals = _compare(_state(), _state(), gates=Gates(serving_accuses_only=True))
    assert {s.answer for s in signals if s.gated} == {Answer.BETTER_OR_EQUAL}
    assert combine(signals, RAN).verdict is Verdict.PASS
    assert {s.name for s in signals if not s.gated} >= {
        "memory mtp: KV-cache blocks",
        "server mtp: time per step",
    }


def test_nothing_passes_whose_lines_nothing_ran() -> None:
    signals = _compare(_state(), _state(), gates=Gates(serving_accuses_only=True))
    assert combine(signals, Exercise(changed=3, executed=0)).verdict is (
        Verdict.INCONCLUSIVE
    )


def test_wrong_answers_are_a_regression() -> None:
    after = _state()
    spoiled = [answer(n, right=n >= 20) for n in range(300)]
    after.answers = boot(answers=spoiled, accepted=[38] * 20)
    signals = _compare(_state(), after)
    assert _named(signals, "accuracy mtp/gsm8k").answer is Answer.WORSE
    assert combine(signals, RAN).verdict is Verdict.REGRESSED


def test_a_cell_may_have_a_margin_of_its_own() -> None:
    def found(margin: float | None) -> Answer:
        few = StateFacts(answers=boot(answers=right_answers(20), accepted=[38] * 20))
        own = {"full": margin, "quick": margin} if margin else None
        cell = AccuracyCell.model_validate(
            {**SETUP.accuracy[0].model_dump(), "margin": own}
        )
        setup = SETUP.model_copy(update={"accuracy": (cell,)})
        return _named(
            compare(Arms(NAME, setup, Gates(), False, few, few)), "gsm8k"
        ).answer

    assert found(None) is Answer.CANT_TELL
    assert found(0.3) is Answer.BETTER_OR_EQUAL


def test_a_shifted_log_probability_is_seen_with_equal_answers() -> None:
    after = _state()
    shifted = [answer(n, right=True, logprob=-0.6) for n in range(300)]
    after.answers = boot(answers=shifted, accepted=[38] * 20)
    signals = _compare(_state(), after)
    assert _named(signals, "log-probabilities").answer is Answer.WORSE
    assert _named(signals, "accuracy mtp/gsm8k").answer is Answer.BETTER_OR_EQUAL


def test_tokens_past_the_end_of_an_equal_text_do_not_count() -> None:
    """With fewer drafts accepted, fewer tokens come along behind the stop string."""
    after = _state()
    longer = [
        a.model_copy(update={"token_logprobs": (*a.token_logprobs, -3.0)})
        for a in right_answers()
    ]
    after.answers = boot(answers=longer, accepted=[38] * 20)
    found = _named(_compare(_state(), after), "log-probabilities")
    assert found.answer is Answer.BETTER_OR_EQUAL
    assert found.numbers is not None
    assert found.numbers.n == 2 * len(longer)


def test_a_collapse_of_acceptance_is_a_regression_with_equal_answers() -> None:
    after = _state()
    after.answers = boot(answers=right_answers(), accepted=[10] * 20)
    signals = _compare(_state(), after)
    assert _named(signals, "acceptance mtp/free-text length").answer is Answer.WORSE
    assert combine(signals, RAN).verdict is Verdict.REGRESSED


def test_equal_counts_in_every_batch_need_no_interval() -> None:
    few = StateFacts(answers=boot(answers=right_answers(), accepted=[38] * 3))
    found = _named(_compare(few, few), "acceptance")
    assert found.answer is Answer.BETTER_OR_EQUAL
    assert found.reason.endswith("drafts, accepted by position: 114")


def test_other_questions_are_refused() -> None:
    after = _state()
    after.answers = boot(
        answers=[answer(n + 1, right=True) for n in range(300)], accepted=[38] * 20
    )
    assert _named(_compare(_state(), after), "accuracy").answer is Answer.INVALID


def test_a_failed_start_is_no_verdict_on_the_patch() -> None:
    after = StateFacts(failures={"answers": "server: died", "timing": "server: died"})
    signals = _compare(_state(), after)
    assert {s.answer for s in signals} == {Answer.INVALID}
    assert combine(signals, RAN).verdict is Verdict.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("again", "answer_", "verdict"),
    [
        ((50.0, 51.0), Answer.WORSE, Verdict.REGRESSED),
        ((100.0, 101.0), Answer.CANT_TELL, Verdict.PASS),
    ],
)
def test_a_slower_server_is_said_only_when_fresh_starts_say_it_too(
    again: tuple[float, ...], answer_: Answer, verdict: Verdict
) -> None:
    gates = Gates(serving_accuses_only=True)
    before = _state(again=(100.0, 101.0))
    signals = _compare(before, _state(speeds=(50.0, 50.6), again=again), gates=gates)
    assert _named(signals, "output throughput").answer is answer_
    assert combine(signals, RAN).verdict is verdict


UNPROVED = (80.0, 95.0)
"""Slower than 100 and 101 beyond the floor, by a spread that two pairs can't carry."""


def test_a_mere_suspicion_asks_for_fresh_starts() -> None:
    def found(speeds: tuple[float, ...]) -> list[str]:
        return suspects(
            Arms(NAME, SETUP, Gates(), False, _state(), _state(speeds=speeds))
        )

    assert found((100.0, 101.0)) == []
    assert found((120.0, 119.0)) == []
    assert "serving mtp/short: output throughput" in found(UNPROVED)
    signals = _compare(_state(), _state(speeds=UNPROVED))
    assert _named(signals, "output throughput").answer is Answer.CANT_TELL


@pytest.mark.parametrize(
    ("again", "answer_"),
    [
        ((50.0, 50.5, 50.2), Answer.WORSE),
        ((100.0, 101.0, 99.9), Answer.BETTER_OR_EQUAL),
        ((60.0, 130.0, 100.0), Answer.CANT_TELL),
    ],
)
def test_fresh_starts_settle_a_suspicion(
    again: tuple[float, ...], answer_: Answer
) -> None:
    before = _state(again=(100.0, 101.0, 100.0))
    found = _named(
        _compare(before, _state(speeds=UNPROVED, again=again)), "output throughput"
    )
    assert found.answer is answer_
    assert found.confirmed


def test_what_base_against_base_shows_is_no_harm() -> None:
    before, after = _state(speeds=(100.0,) * 3), _state(speeds=(90.0, 90.5, 89.5))
    signals = _compare(before, after)
    assert _named(signals, "output throughput").answer is Answer.WORSE
    logs = dict.fromkeys(speed_logs(Arms(NAME, SETUP, Gates(), False, before, after)))
    noise = Noise(
        tag="v1.2.3",
        profile="toy",
        verdict=Verdict.PASS,
        command="make noise",
        finished_at="2026-01-01T00:00:00+00:00",
        seconds=1,
        machine=machine(),
        content="a" * 64,
        pairs=3,
        log_ratios=dict.fromkeys(logs, (0.2, -0.2, 0.1)),
        floors={},
        finds={},
        signals=(),
    )
    arms = Arms(NAME, SETUP, Gates(), False, before, after, noise=noise)
    quieter = _named(compare(arms), "output throughput")
    assert quieter.answer is Answer.CANT_TELL
    assert "within what base against base shows" in quieter.reason


def test_acceptance_that_falls_during_a_run_is_seen() -> None:
    after = _state()
    falling = [38] * 8 + [36] * 6 + [30] * 8
    steady = _state()
    steady.answers = boot(answers=right_answers(), accepted=[36] * 22)
    after.answers = boot(answers=right_answers(), accepted=falling)
    assert _named(_compare(steady, after), "decay").answer is Answer.WORSE


def test_a_collapse_that_both_states_share_is_below_the_absolute_floor() -> None:
    cell = SETUP.acceptance[0].model_copy(update={"lowest_rates": (0.9,)})
    setup = SETUP.model_copy(update={"acceptance": (cell,)})
    low = _state()
    low.answers = boot(answers=right_answers(), accepted=[10] * 20)
    signals = compare(Arms(NAME, setup, Gates(), False, low, low))
    assert _named(signals, "length").answer is Answer.BETTER_OR_EQUAL
    assert _named(signals, "absolute floor").answer is Answer.WORSE
    fine = compare(Arms(NAME, setup, Gates(), False, _state(), _state()))
    assert _named(fine, "absolute floor").answer is Answer.BETTER_OR_EQUAL


def test_a_worse_speed_without_confirmation_is_not_yet_a_regression() -> None:
    gates = Gates(serving_accuses_only=True)
    signals = _compare(_state(), _state(speeds=(50.0, 50.6)), gates=gates)
    assert not _named(signals, "output throughput").confirmed
    assert combine(signals, RAN).verdict is Verdict.INCONCLUSIVE
