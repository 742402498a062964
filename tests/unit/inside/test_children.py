# SPDX-License-Identifier: Apache-2.0
"""However a forked child ends, that is data."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.inside.probes import children

SEEN: list[str] = []


def outcome(
    function: Callable[[], None], folder: Path, seconds: float = 60
) -> tuple[children.Outcome, Any]:
    def work() -> None:
        SEEN.append("before")
        function()

    child = children.start(work, lambda: SEEN, folder, seconds)
    ((ended, value),) = children.wait([child])
    return ended, value


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_child_that_works(tmp_path: Path) -> None:
    assert outcome(lambda: None, tmp_path) == ({"kind": "ok"}, ["before"])
    assert SEEN == []


def test_an_exception_keeps_its_frames_and_what_was_seen(tmp_path: Path) -> None:
    def fail() -> None:
        raise KeyError("gone")

    ended, value = outcome(fail, tmp_path)
    assert (ended["kind"], ended["type"]) == ("raised", "KeyError")
    assert ended["frames"][-1][0] == __file__
    assert ended["frames"][-1][2] == "fail"
    assert value == ["before"]


def test_a_death_keeps_the_stack(tmp_path: Path) -> None:
    ended, value = outcome(crash, tmp_path)
    assert (ended["kind"], ended["signal"]) == ("died", "SIGSEGV")
    assert [frame[2] for frame in ended["frames"]][-2:] == ["work", "crash"]
    assert value is None


def test_a_death_after_the_result_is_a_death(tmp_path: Path) -> None:
    class Deadly:
        def write(self, text: str) -> int:
            return len(text)

        def flush(self) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    def arm() -> None:
        sys.stdout = Deadly()  # type: ignore[assignment]

    ended, _ = outcome(arm, tmp_path)
    assert (ended["kind"], ended["signal"]) == ("died", "SIGKILL")


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    ended, _ = outcome(lambda: signal.pause(), tmp_path, seconds=0.5)
    assert ended["kind"] == "timeout"


def test_others_do_not_wait_for_a_rank_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "FOLLOW_SECONDS", 0.2)
    started = [
        children.start(crash, list, tmp_path / "0", 60),
        children.start(lambda: signal.pause(), list, tmp_path / "1", 60),
    ]
    assert [ended["kind"] for ended, _ in children.wait(started)] == ["died", "timeout"]
