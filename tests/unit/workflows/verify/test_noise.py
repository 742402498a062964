# SPDX-License-Identifier: Apache-2.0
"""The base compared with itself, on the toy series with made-up servers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.errors import ExitCode, InfrastructureError
from harness.models.base import load
from harness.models.boots import BootFacts
from harness.models.noise import Noise
from harness.models.signal import Answer, Verdict
from harness.workflows.verify import executor as executing
from harness.workflows.verify.boots import Bench, Start
from harness.workflows.verify.machine import machine
from harness.workflows.verify.noise import (
    find_noise,
    measure_noise,
    noise_lines,
    write_noise,
)
from harness.workflows.verify.run import Options, prepared
from tests.support.facts import answer, boot, right_answers
from tests.support.servers import PROFILE, Servers
from tests.support.toy import TAG, Toy

SPEEDS = {
    ("base", 1): 100.0, ("base-again", 1): 101.0,
    ("base", 2): 99.0, ("base-again", 2): 98.0,
    ("base", 3): 100.5, ("base-again", 3): 100.0,
}  # fmt: skip


def _measure(toy: Toy, *, pairs: int = 3) -> Noise:
    options = Options(PROFILE, source=str(toy.clone))
    made, states = prepared(
        toy.project, toy.upstream, toy.series, options, say=lambda line: None
    )
    return measure_noise(
        made, states[0], pairs=pairs, command="make noise", say=lambda line: None
    )


def _with_speeds(
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    speeds: dict[tuple[str, int], float],
) -> None:
    def run(bench: Bench, start: Start, runner: object) -> BootFacts:
        facts = servers.run(bench, start, runner)
        if not facts.serving:
            return facts
        return boot(speed=speeds[start.state.label, start.block])

    monkeypatch.setattr(executing, "run_start", run)


def test_the_base_is_served_as_two_states(
    toy: Toy, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_speeds(servers, monkeypatch, SPEEDS)
    found = _measure(toy)
    assert servers.made == [
        "base-mtp-answers",
        "base-again-mtp-answers",
        "base-mtp-timing-timing-1",
        "base-again-mtp-timing-timing-1",
        "base-again-mtp-timing-timing-2",
        "base-mtp-timing-timing-2",
        "base-mtp-timing-timing-3",
        "base-again-mtp-timing-timing-3",
    ]
    assert all(
        s.answer in (Answer.BETTER_OR_EQUAL, Answer.CANT_TELL) for s in found.signals
    )
    name = "serving mtp/short: output throughput"
    expected = [math.log(101 / 100), math.log(98 / 99), math.log(100 / 100.5)]
    assert found.log_ratios[name] == pytest.approx(expected)
    assert 0.005 < found.floors[name] < 0.05
    assert found.finds[name] > found.floors[name]
    assert any("would show a harm of" in line for line in noise_lines(found))


def test_a_false_alarm_is_not_hidden(
    toy: Toy, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = {k: v / 2 if k[0] == "base-again" else v for k, v in SPEEDS.items()}
    _with_speeds(servers, monkeypatch, speeds)
    found = _measure(toy)
    assert found.verdict is not Verdict.PASS
    worse = [s for s in found.signals if s.answer is Answer.WORSE]
    assert [s.name for s in worse if "throughput" in s.name]


def test_answers_that_differ_between_two_starts_are_seen(
    toy: Toy, servers: Servers
) -> None:
    other = [answer(0, right=False), *right_answers()[1:]]
    servers.answers = {"base-again": other}
    signals = _measure(toy).signals
    assert signals[0].name == "accuracy mtp/gsm8k"
    assert signals[0].numbers is not None
    assert signals[0].numbers.effect == pytest.approx(-1 / 300)


def test_noise_is_kept_for_machines_like_this_one(
    toy: Toy, servers: Servers, tmp_path: Path
) -> None:
    found = _measure(toy)
    home = write_noise(toy.project, found)
    assert load(home / "noise.json", Noise) == found
    assert "Noise floor over 3 pairs" in (home / "report.md").read_text()
    here = machine()
    assert find_noise(toy.project, TAG, "toy", here) == found
    other = here.model_copy(update={"cores": here.cores + 1})
    assert find_noise(toy.project, TAG, "toy", other) is None
    assert find_noise(toy.project, TAG, "none", here) is None


def test_a_server_that_does_not_start_is_no_noise(toy: Toy, servers: Servers) -> None:
    def fail(start: Start) -> None:
        raise InfrastructureError("failed to start", where="server")

    servers.before = fail
    found = _measure(toy)
    assert found.verdict is Verdict.INFRASTRUCTURE
    assert found.verdict.exit_code is ExitCode.INFRASTRUCTURE
    assert found.log_ratios == {}
