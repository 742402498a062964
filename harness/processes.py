# SPDX-License-Identifier: Apache-2.0
"""Commands that never outlive us: own session, a log, a deadline, and a clean end.

Every command runs below a supervisor (harness/supervisor.py), which ends everything
the command started, also when this process is killed. Only what we started is ever
signalled: processes below our supervisor, or carrying the run id in the environment
they were started with.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import psutil

from harness.errors import InfrastructureError

RUN_ID = "HARNESS_RUN_ID"
"""Environment variable by which a process is known as one of ours."""

STOP_GRACE = 15.0
"""Seconds between SIGTERM and SIGKILL."""

_KILL_PATIENCE = 30.0
"""Seconds that the kernel gets to end killed processes (freeing much memory)."""

_HEARTBEAT = 0.5
"""Seconds between looks at a running command."""

_living: weakref.WeakSet[Supervised] = weakref.WeakSet()
_ending = False


def tail(path: Path, lines: int) -> list[str]:
    """The last non-empty lines of a log; no lines if it does not exist."""
    if not path.exists():
        return []
    with path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 400 * lines - 4096))
        text = stream.read().decode(errors="replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    ``status`` is the exit status (negative: the signal), ``seconds`` the wall time.
    """

    status: int
    log: Path
    seconds: float

    def check(self, what: str) -> Finished:
        """Raise InfrastructureError, naming ``what`` and the last line of the log,
        unless the command succeeded."""
        if self.status != 0:
            last = tail(self.log, 1)
            how = describe_status(self.status)
            said = f": {last[0].strip()}" if last else ""
            raise InfrastructureError(
                f"{how}{said}", where=what, fix=f"log in {self.log}"
            )
        return self


def describe_status(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


class Supervised:
    """A command and everything it starts; ended when the context is left.

    Args:
        command: Program and arguments.
        log: Standard output and error are appended to this file.
        env: The command's whole environment (None: ours). The run id is added.
        cwd: Where it runs.
        grace: Seconds between SIGTERM and SIGKILL at the end.

    Raises:
        InfrastructureError: The command can't be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace: float = STOP_GRACE,
    ) -> None:
        self.command = tuple(command)
        self.log = log
        self.run_id = uuid.uuid4().hex
        self._grace = grace
        self._status: int | None = None
        self._gone = False
        self._buffer = b""
        self._known: dict[int, psutil.Process] = {}
        log.parent.mkdir(parents=True, exist_ok=True)
        variables = dict(os.environ if env is None else env)
        request = {
            "command": list(command),
            "log": str(log),
            "env": {**variables, RUN_ID: self.run_id},
            "cwd": str(cwd) if cwd else None,
            "grace": grace,
        }
        script = Path(__file__).with_name("supervisor.py")
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._tell(json.dumps(request))
        self.pid = self._wait_for_start()
        self.created = self._creation_time()
        _living.add(self)
        if _ending:
            self._tell("stop")

    def __enter__(self) -> Supervised:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor.pid

    def poll(self) -> int | None:
        """The command's exit status, or None while it runs."""
        return self.wait(0)

    def wait(self, timeout: float) -> int | None:
        """Wait at most ``timeout`` seconds; the exit status or None."""
        deadline = time.monotonic() + timeout
        while self._status is None:
            left = max(0.0, deadline - time.monotonic())
            event = self._next_event(left)
            if event is None:
                return None
            self._take(event)
        return self._status

    def same_process(self) -> bool:
        """Whether ``pid`` is still the process we started (pids are reused)."""
        try:
            process = psutil.Process(self.pid)
            return (
                process.create_time() == self.created
                and process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return False

    def members(self) -> list[psutil.Process]:
        """The command and every living process below it."""
        try:
            below = psutil.Process(self._supervisor.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            below = list(self._known.values())
        found = [p for p in below if _alive(p)]
        self._known.update({p.pid: p for p in found})
        return found

    def stop(self) -> None:
        """End the command and everything it started; returns when all are gone.

        Raises:
            InfrastructureError: Something survived SIGKILL (a process stuck in the
                kernel); the message names it.
        """
        if not self._gone:
            self.members()
            self._tell("stop")
        deadline = time.monotonic() + self._grace + _KILL_PATIENCE
        while not self._gone and time.monotonic() < deadline:
            event = self._next_event(1.0)
            if event is not None:
                self._take(event)
        self._close()
        self._kill_survivors()

    def _tell(self, line: str) -> None:
        assert self._supervisor.stdin is not None
        # A supervisor that died can't listen; _kill_survivors() does its work.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._supervisor.stdin.write(line.encode() + b"\n")
            self._supervisor.stdin.flush()

    def _wait_for_start(self) -> int:
        event = self._next_event(60.0) or {"error": "the supervisor does not answer"}
        if "started" not in event:
            self._close()
            reason = event.get("error", "the supervisor ended")
            raise InfrastructureError(f"can't be started: {reason}", where=self._name())
        return int(str(event["started"]))

    def _creation_time(self) -> float:
        try:
            return psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return 0.0

    def _name(self) -> str:
        return " ".join(self.command[:3])

    def _next_event(self, timeout: float) -> dict[str, object] | None:
        """The supervisor's next report; {} when it ended; None after the time."""
        assert self._supervisor.stdout is not None
        handle = self._supervisor.stdout.fileno()
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([handle], [], [], left)[0]:
                return None
            data = os.read(handle, 65536)
            if not data:
                return {}
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, object] = json.loads(line)
        return event

    def _take(self, event: dict[str, object]) -> None:
        if "exit" in event:
            self._status = int(str(event["exit"]))
        elif "gone" in event:
            self._gone = True
        elif not event:
            # The supervisor was killed, and the kernel killed the command with it.
            self._gone = True
            if self._status is None:
                self._status = -signal.SIGKILL

    def _close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            assert self._supervisor.stdin is not None
            self._supervisor.stdin.close()
        try:
            self._supervisor.wait(_KILL_PATIENCE)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    def _kill_survivors(self) -> None:
        deadline = time.monotonic() + _KILL_PATIENCE
        while left := self._survivors():
            if time.monotonic() > deadline:
                names = ", ".join(f"{p.pid} ({_name_of(p)})" for p in left)
                raise InfrastructureError(
                    f"processes survived SIGKILL: {names}", where=self._name()
                )
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            time.sleep(0.1)

    def _survivors(self) -> list[psutil.Process]:
        marked = [p for p in psutil.process_iter() if _run_id(p) == self.run_id]
        known = [p for p in self._known.values() if p.is_running()]
        return [p for p in {*marked, *known} if _alive(p)]


def run(
    command: Sequence[str],
    *,
    log: Path,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    heartbeat: Callable[[], None] | None = None,
    grace: float = 5.0,
) -> Finished:
    """Run a command to its end; the caller judges the exit status.

    Args:
        timeout: Seconds it may take.
        heartbeat: Called twice a second while it runs; what it raises ends the
            command and goes to the caller (a server's liveness check, say).

    Raises:
        InfrastructureError: It can't be started, or took too long.
    """
    began = time.monotonic()
    with Supervised(command, log=log, env=env, cwd=cwd, grace=grace) as process:
        while (status := process.wait(_HEARTBEAT)) is None:
            if heartbeat is not None:
                heartbeat()
            if time.monotonic() - began > timeout:
                raise InfrastructureError(
                    f"not finished after {timeout:.0f} s, ended",
                    where=" ".join(command[:3]),
                    fix=f"log in {log}",
                )
        seconds = time.monotonic() - began
    return Finished(status, log, seconds)


@contextlib.contextmanager
def ending_all() -> Iterator[None]:
    """End every command of this process, and each that a thread still starts.

    The threads that wait for them find them ended, and come to their own ends.
    """
    global _ending
    _ending = True
    try:
        for command in list(_living):
            command._tell("stop")
        yield
    finally:
        _ending = False


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that what we started is ended in order."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _run_id(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(RUN_ID)
    except (psutil.Error, OSError):
        return None


def _name_of(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "gone"
