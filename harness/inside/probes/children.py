# SPDX-License-Identifier: Apache-2.0
"""Functions run in forked children, whose end (value, exception, death) is data."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Outcome = dict[str, Any]
"""``kind`` is ``ok``, ``raised``, ``died`` or ``timeout``; see :func:`finish`."""

FOLLOW_SECONDS = 10.0
"""How long the other ranks may run on once one has failed."""


@dataclass
class Child:
    """A forked process that writes its result into ``folder``."""

    pid: int
    folder: Path
    deadline: float


def start(
    function: Callable[[], None],
    collect: Callable[[], Any],
    folder: Path,
    seconds: float,
) -> Child:
    """Fork a child that calls ``function``, then saves what ``collect`` returns.

    Args:
        function: The work; how it ends is the child's outcome.
        collect: Called after it in the child, even if it raised: what was seen before
            a failure is evidence too. Returns something that JSON can hold.
        folder: Private to the child: its output, result and, if it dies, its stack.
        seconds: After this it is killed, and its outcome is ``timeout``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _child(function, collect, folder)
    return Child(pid, folder, time.monotonic() + seconds)


def _child(
    function: Callable[[], None], collect: Callable[[], Any], folder: Path
) -> None:
    status = 1
    try:
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        stack = (folder / "stack.txt").open("w")
        faulthandler.enable(stack)
        outcome: Outcome = {"kind": "ok"}
        try:
            function()
        except BaseException as error:  # it is data, whatever it is
            outcome = _raised(error)
        result = {"outcome": outcome, "value": collect()}
        part = folder / "result.part"
        part.write_text(json.dumps(result))
        part.rename(folder / "result.json")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # No interpreter shutdown: a child must not run its parent's exit handlers.
        os._exit(status)


def wait(children: Sequence[Child]) -> list[tuple[Outcome, Any]]:
    """Wait for all; once one failed, the others get :data:`FOLLOW_SECONDS`.

    Returns:
        For each child its outcome and what it collected (``None`` if it died).
    """
    waiting = {child.pid: child for child in children}
    statuses: dict[int, int | None] = {}
    while waiting:
        for pid, child in list(waiting.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                statuses[pid] = status
                del waiting[pid]
                if status != 0 or not _succeeded(child.folder):
                    for other in waiting.values():
                        soon = time.monotonic() + FOLLOW_SECONDS
                        other.deadline = min(other.deadline, soon)
            elif time.monotonic() > child.deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                statuses[pid] = None
                del waiting[pid]
        if waiting:
            time.sleep(0.01)
    return [finish(child, statuses[child.pid]) for child in children]


def _succeeded(folder: Path) -> bool:
    path = folder / "result.json"
    return path.exists() and json.loads(path.read_text())["outcome"]["kind"] == "ok"


def finish(child: Child, status: int | None) -> tuple[Outcome, Any]:
    """Outcome and value of a child that ended.

    ``raised`` has ``type``, ``message`` and ``frames`` (``[file, line, function]``,
    innermost last); ``died`` has ``signal`` and the ``frames`` that faulthandler saw.
    """
    if status is None:
        return {"kind": "timeout", "frames": []}, None
    path = child.folder / "result.json"
    # A child that dies on its way out (a damaged heap) has died, result or not.
    if status == 0 and path.exists():
        result = json.loads(path.read_text())
        return result["outcome"], result["value"]
    number = os.waitstatus_to_exitcode(status)
    name = signal.Signals(-number).name if number < 0 else f"exit {number}"
    frames = _stack_frames(child.folder / "stack.txt")
    return {"kind": "died", "signal": name, "frames": frames}, None


def _raised(error: BaseException) -> Outcome:
    traceback.print_exception(error)
    frames = [
        [frame.filename, frame.lineno, frame.name]
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    return {
        "kind": "raised",
        "type": type(error).__name__,
        "message": str(error).splitlines()[0][:500] if str(error) else "",
        "frames": frames,
    }


def _stack_frames(path: Path) -> list[list[Any]]:
    """Frames of faulthandler's report of the thread that failed, innermost last."""
    if not path.exists():
        return []
    frames: list[list[Any]] = []
    for line in path.read_text(errors="replace").splitlines():
        words = line.strip()
        if frames and not words.startswith("File "):
            break
        if words.startswith('File "'):
            file, _, rest = words.removeprefix('File "').partition('", line ')
            number, _, function = rest.partition(" in ")
            frames.append([file, int(number), function])
    return frames[::-1]
