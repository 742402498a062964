# SPDX-License-Identifier: Apache-2.0
"""Work side by side, and its end."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from harness import processes
from harness.errors import InfrastructureError
from harness.jobs import Jobs, as_completed, result

LONG = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]


def _wait_for(log: Path) -> None:
    deadline = time.monotonic() + 30
    while not (log.exists() and "begun" in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_work_runs_side_by_side_up_to_the_limit() -> None:
    both = threading.Barrier(2, timeout=30)
    with Jobs(2) as jobs:
        found = [jobs.submit(both.wait) for _ in range(2)]
        assert {one.result() for one in found} == {0, 1}
    order: list[int] = []
    with Jobs(1) as jobs:
        for number in range(5):
            jobs.submit(lambda number=number: order.append(number))
    assert order == [0, 1, 2, 3, 4]


def test_no_error_is_lost() -> None:
    def fail() -> None:
        raise InfrastructureError("failed", where="one")

    def unasked() -> None:
        with Jobs(1) as jobs:
            jobs.submit(fail)

    with pytest.raises(InfrastructureError, match="failed"):
        unasked()


def test_an_interruption_ends_the_commands_and_drops_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    begun: list[str] = []
    ended: list[int] = []

    def work() -> None:
        ended.append(processes.run(LONG, log=log, timeout=60).status)

    def interrupted() -> None:
        with Jobs(1) as jobs:
            jobs.submit(work)
            jobs.submit(lambda: begun.append("dropped"))
            _wait_for(log)
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began < 30
    assert ended == [-15]
    assert begun == []


@pytest.mark.parametrize("wait", [result, lambda one: list(as_completed([one]))])
def test_an_interruption_is_heard_whichever_thread_gets_it(
    tmp_path: Path, wait: Callable[[Future[int]], object]
) -> None:
    ended: list[int] = []
    waiting = threading.Event()

    def work() -> int:
        assert waiting.wait(30)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        ended.append(processes.run(LONG, log=tmp_path / "long", timeout=60).status)
        return ended[0]

    def interrupted() -> None:
        with Jobs(1) as jobs:
            job = jobs.submit(work)
            waiting.set()
            wait(job)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began < 30
    assert ended == [-15]


def test_a_command_started_during_the_end_is_ended_too(tmp_path: Path) -> None:
    with processes.ending_all():
        done = processes.run(LONG, log=tmp_path / "late.log", timeout=60)
    assert done.status == -15
    after = processes.run([sys.executable, "-c", ""], log=tmp_path / "a", timeout=60)
    assert after.status == 0


def test_the_error_of_one_piece_ends_the_others(tmp_path: Path) -> None:
    log = tmp_path / "long.log"

    def fail() -> None:
        _wait_for(log)
        raise InfrastructureError("failed", where="one")

    def both() -> None:
        with Jobs(2) as jobs:
            jobs.submit(lambda: processes.run(LONG, log=log, timeout=60))
            jobs.submit(fail).result()

    began = time.monotonic()
    with pytest.raises(InfrastructureError, match="failed"):
        both()
    assert time.monotonic() - began < 30
