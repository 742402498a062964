# SPDX-License-Identifier: Apache-2.0
"""Commands that never outlive us."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness import processes
from harness.errors import InfrastructureError

FORGETFUL = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(600)
while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]):
    time.sleep(0.01)
sys.exit(int(sys.argv[2]))
"""
"""Leaves a child behind that is in another session and ignores SIGTERM."""


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_output_and_the_status_come_back(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "a.log"
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    done = processes.run([sys.executable, "-c", code], log=log, timeout=60)
    assert done.status == 7
    assert sorted(log.read_text().split()) == ["err", "out"]
    with pytest.raises(InfrastructureError, match="probe: ended with status 7"):
        done.check("probe")


def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    command = ["sh", "-c", "kill -SEGV $$"]
    done = processes.run(command, log=tmp_path / "a.log", timeout=60)
    assert done.status == -signal.SIGSEGV
    with pytest.raises(InfrastructureError, match="was killed by SIGSEGV"):
        done.check("probe")


def test_a_missing_program_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"can't be started: No such file"):
        processes.run(["no-such-program"], log=tmp_path / "a.log", timeout=60)


def test_the_environment_is_the_one_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAK", "yes")
    log = tmp_path / "a.log"
    processes.run(
        ["/usr/bin/env"], log=log, timeout=60, env={"GIVEN": "yes"}, cwd=tmp_path
    )
    names = {line.partition("=")[0] for line in log.read_text().splitlines()}
    assert names == {"GIVEN", processes.RUN_ID}


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    log = tmp_path / "a.log"
    with pytest.raises(InfrastructureError, match="not finished after 2 s"):
        processes.run([sys.executable, "-c", code], log=log, timeout=2)
    assert is_gone(int(log.read_text()))


def test_what_the_heartbeat_raises_ends_the_command(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def heartbeat() -> None:
        if log.exists() and log.read_text().strip():
            raise Stop

    log = tmp_path / "a.log"
    command = ["sh", "-c", "echo $$; sleep 600"]
    with pytest.raises(Stop):
        processes.run(command, log=log, timeout=60, heartbeat=heartbeat)
    assert is_gone(int(log.read_text()))


def test_children_of_a_finished_command_are_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = [sys.executable, "-c", FORGETFUL, str(note), "0"]
    done = processes.run(command, log=tmp_path / "a.log", timeout=60, grace=0.3)
    assert done.status == 0
    assert is_gone(int(note.read_text()))


def test_nothing_survives_the_death_of_the_supervisor(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = FORGETFUL.replace("sys.exit", "time.sleep(600), sys.exit")
    command = [sys.executable, "-c", code, str(note), "0"]
    with processes.Supervised(command, log=tmp_path / "a.log", grace=0.3) as process:
        while not note.exists() or not note.read_text():
            time.sleep(0.02)
        os.kill(process.supervisor_pid, signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
        forgotten = int(note.read_text())
    assert is_gone(process.pid)
    assert is_gone(forgotten)


def test_a_reused_pid_is_not_taken_for_ours(tmp_path: Path) -> None:
    command = ["sleep", "600"]
    with processes.Supervised(command, log=tmp_path / "a.log", grace=1) as process:
        assert process.same_process()
        process.created -= 100
        assert not process.same_process()


def test_sigterm_becomes_an_interrupt_and_the_old_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), processes.sigterm_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert processes.tail(log, 3) == []
    log.write_text("".join(f"line {n}\n\n" for n in range(5000)))
    assert processes.tail(log, 2) == ["line 4998", "line 4999"]
