# SPDX-License-Identifier: Apache-2.0
"""A small process that stands between us and a command, and outlives us.

It starts the command in a session of its own and ends everything the command
started when it is told to, when the command ends, or when the pipe from the harness
closes: the kernel closes it even if the harness is killed with SIGKILL. Being a
"child subreaper", it inherits every orphan below it, so processes that moved to
another session, ignore SIGTERM or overwrote their environment (vLLM does all three)
are found as well.

Run as a file, with the standard library alone: ``python -I -S supervisor.py``.
Standard input carries one JSON line {command, log, env, cwd, grace}, then perhaps a
line ``stop``; ``grace`` is the seconds between SIGTERM and SIGKILL. Standard output
gets one JSON line per event: {"started": pid}, {"exit": status} (negative: the
signal), {"gone": true}, or {"error": text} when the command can't be started.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

LEFTOVER_GRACE = 5.0
"""Most seconds that a finished command's own children get to end by themselves."""

COLLECT_PATIENCE = 10.0
"""Seconds that the kernel gets to finish the processes that are dead."""

_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """One command and everything below it."""

    def __init__(self, request: dict[str, Any], control: int, wake: int) -> None:
        self._control = control
        self._wake = wake
        self._pid = 0
        self._status: int | None = None
        self._stopping = False
        self._request = request

    def run(self) -> int:
        try:
            process = _start(self._request)
        except OSError as error:
            _say(error=f"{error.strerror}: {self._request['command'][0]}")
            return 1
        self._pid = process.pid
        _say(started=process.pid)
        while self._status is None and not self._stopping:
            self._step(None)
        self._end(self._request["grace"])
        # Keep the object from polling the process that _reap() has collected.
        process.returncode = self._status
        _say(gone=True)
        return 0

    def stop_on_signal(self) -> None:
        """End the command as if the harness had asked for it."""
        self._stopping = True

    def _step(self, timeout: float | None) -> None:
        """Wait for news: a child's end, a line from the harness, or the time."""
        watched = [self._wake] + ([self._control] if self._control >= 0 else [])
        ready, _, _ = select.select(watched, [], [], timeout)
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._control in ready:
            self._listen()
        self._reap()

    def _listen(self) -> None:
        data = os.read(self._control, 4096)
        if not data:
            # The harness is gone. Nobody reads our reports from here on.
            self._control = -1
        self._stopping = True

    def _reap(self) -> bool:
        """Collect the dead; whether children are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self._status = os.waitstatus_to_exitcode(status)
                _say(exit=self._status)

    def _end(self, grace: float) -> None:
        """TERM to the command's group, a wait, then KILL until nothing is left."""
        _signal_group(self._pid, signal.SIGTERM)
        leftover = min(grace, LEFTOVER_GRACE)
        deadline = time.monotonic() + grace
        running = self._status is None
        while descendants(os.getpid()) and time.monotonic() < deadline:
            self._step(0.1)
            if running and self._status is not None:
                running = False
                deadline = min(deadline, time.monotonic() + leftover)
        while left := descendants(os.getpid()):
            for pid in left:
                _signal(pid, signal.SIGKILL)
            self._step(0.05)
        # A process with many threads is a zombie some time before it can be collected
        # and its memory is free.
        deadline = time.monotonic() + COLLECT_PATIENCE
        while self._reap() and time.monotonic() < deadline:
            self._step(0.05)


def descendants(root: int) -> list[int]:
    """The living processes below ``root``, zombies left out."""
    children: dict[int, list[int]] = {}
    alive = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold spaces and parentheses itself.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2]
        except OSError:
            continue
        state, parent = fields.split()[:2]
        pid = int(entry.name)
        children.setdefault(int(parent), []).append(pid)
        if state not in "ZX":
            alive.add(pid)
    found: list[int] = []
    queue = list(children.get(root, []))
    while queue:
        pid = queue.pop()
        queue.extend(children.get(pid, []))
        if pid in alive:
            found.append(pid)
    return found


def _start(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    with Path(request["log"]).open("ab") as log:
        return subprocess.Popen(
            request["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=request["env"],
            cwd=request["cwd"],
            start_new_session=True,
            # If this process is killed, the command must not outlive it. There are
            # no threads here, so code between fork and exec is safe.
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _say(**event: object) -> None:
    try:
        os.write(1, json.dumps(event).encode() + b"\n")
    except BrokenPipeError:
        return


def _read_request() -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(1)
        data += byte
    request: dict[str, Any] = json.loads(data)
    return request


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        _say(error=os.strerror(ctypes.get_errno()))
        return 1
    wake, wake_write = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    supervisor = Supervisor(_read_request(), control=0, wake=wake)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.stop_on_signal())
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
