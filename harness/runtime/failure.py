# SPDX-License-Identifier: Apache-2.0
"""Why a server ended, read from its log: one cause and one line.

vLLM's API server ends with "Engine core initialization failed. See root cause above":
the reason is the first exception in the log, not the last.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from harness import processes
from harness.errors import InfrastructureError


class Cause(StrEnum):
    """What kind of failure it was."""

    PORT = "port in use"
    MEMORY = "out of memory"
    SYNTAX = "syntax error"
    IMPORT = "import error"
    ARGUMENTS = "bad arguments"
    EXCEPTION = "exception"
    SIGNAL = "killed by a signal"
    EXIT = "ended"
    TIMEOUT = "not ready in time"
    STALLED = "no progress"
    HUNG = "hangs"
    REFUSED = "refuses requests"
    CHANGED = "another process"


@dataclass(frozen=True)
class Diagnosis:
    """A cause, one line that says it, and the place in the source if one is known."""

    cause: Cause
    text: str
    file: str | None = None
    line: int | None = None


class ServerError(InfrastructureError):
    """A server failed to start or to stay up; ``detail`` is the end of its log."""

    def __init__(self, diagnosis: Diagnosis, *, what: str, log: Path) -> None:
        self.diagnosis = diagnosis
        self.log = log
        super().__init__(
            f"{what}: {diagnosis.text}",
            where="server",
            fix=f"log in {log}",
            detail=processes.tail(log, TAIL_LINES),
        )


TAIL_LINES = 15
"""Lines of the log that are shown with an error."""

_READ = 2_000_000
"""Bytes of the log that are searched, from its end."""

_PREFIX = re.compile(
    r"^(?:\([^)]*pid=\d+\)\s?)?"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\]\s?)?"
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(
    r"^(?P<name>(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)"
    r"|(?:\w+\.)+exc\.\w+)(?::\s*(?P<text>.*))?$"
)
"""Not all are called so: torch._dynamo.exc.Unsupported."""
_ARGUMENT_ERROR = re.compile(r"^\S+(?: \S+)?: error: (?P<text>.+)$")
_WRAPPERS = (
    "Engine core initialization failed",
    "Engine process failed to start",
    "CalledProcessError",
    "Error raised in subprocess",
    "WorkerProc initialization failed",
    "Worker failed with error",
)
"""What a process says when it fails because another one did."""
_PORT = ("Address already in use", "address already in use")
_MEMORY = (
    "out of memory",
    "Cannot allocate memory",
    "MemoryError",
    "No available memory for the cache blocks",
    "can't allocate memory",
)
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")


def read_log(log: Path) -> list[str]:
    """The log's lines without vLLM's prefixes."""
    if not log.exists():
        return []
    text = log.read_bytes()[-_READ:].decode(errors="replace")
    return [_PREFIX.sub("", line) for line in text.splitlines()]


def diagnose(status: int | None, lines: Sequence[str]) -> Diagnosis:
    """The cause of an end with ``status`` (None: still running) and this log."""
    raised = _root_exception(_exceptions(lines))
    text = raised.text if raised else ""
    for cause, words in ((Cause.PORT, _PORT), (Cause.MEMORY, _MEMORY)):
        if any(word in text for word in words) and raised:
            return replace(raised, cause=cause)
    if raised:
        return raised
    for line in lines:
        if match := _ARGUMENT_ERROR.match(line):
            return Diagnosis(Cause.ARGUMENTS, match["text"])
    for cause, words in ((Cause.PORT, _PORT), (Cause.MEMORY, _MEMORY)):
        for line in lines:
            if any(word in line for word in words):
                return Diagnosis(cause, line.strip())
    if status is None:
        return Diagnosis(Cause.EXIT, "no reason in the log")
    how = processes.describe_status(status)
    if status == -signal.SIGKILL:
        how += " (not by us; often the kernel, when memory runs out)"
    return Diagnosis(Cause.SIGNAL if status < 0 else Cause.EXIT, how)


def _root_exception(raised: Sequence[Diagnosis]) -> Diagnosis | None:
    """The one that the others follow from.

    A syntax error is always it. Otherwise the first, unless that one only reports
    that another process failed: its traceback then comes further down.
    """
    for wanted in raised:
        if wanted.cause is Cause.SYNTAX:
            return wanted
    for wanted in raised:
        if not any(word in wanted.text for word in _WRAPPERS):
            return wanted
    return raised[0] if raised else None


def _exceptions(lines: Sequence[str]) -> list[Diagnosis]:
    """Every exception in the log, with the innermost frame above it."""
    found = []
    frame: re.Match[str] | None = None
    for line in lines:
        if match := _FRAME.match(line):
            frame = match
        elif frame is not None and (raised := _EXCEPTION.match(line)):
            found.append(
                Diagnosis(
                    _cause_of(raised["name"].rpartition(".")[2]),
                    f"{line.strip()} at {frame['file']}:{frame['line']}",
                    file=frame["file"],
                    line=int(frame["line"]),
                )
            )
            frame = None
    return found


def _cause_of(name: str) -> Cause:
    if name in _SYNTAX_ERRORS:
        return Cause.SYNTAX
    if name in _IMPORT_ERRORS:
        return Cause.IMPORT
    return Cause.EXCEPTION
