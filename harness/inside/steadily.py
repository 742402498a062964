# SPDX-License-Identifier: Apache-2.0
"""Keeping a file up to date with what a serving process notes, without delaying it."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from pathlib import Path

PERIOD = 1.0
"""Seconds between two looks for something new to write."""


def write_steadily(path: Path, write: Callable[[], None], name: str) -> None:
    """Call ``write`` now, about once a second from now on, and when the process ends.

    ``write`` must keep ``path`` up to date, cheaply when there is nothing new; ``name``
    is the thread's.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write()
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(PERIOD):
            write()

    def finish() -> None:
        stop.set()
        thread.join()
        write()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    atexit.register(finish)


def replace_text(path: Path, text: str) -> None:
    """Write ``path`` whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)
