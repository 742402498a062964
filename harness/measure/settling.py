# SPDX-License-Identifier: Apache-2.0
"""Waiting until serving processes have written down what they noted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.errors import InfrastructureError
from harness.inside.steadily import PERIOD


def await_settled(
    folder: Path,
    pattern: str,
    *,
    patience: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the files of an idle server don't change any more.

    Args:
        pattern: Of the files' names in ``folder``.
        patience: Seconds until files that still change are an error.

    Raises:
        InfrastructureError: They go on changing.
    """
    deadline = time.monotonic() + patience
    before = None
    while (now := _stamps(folder, pattern)) != before:
        if time.monotonic() > deadline:
            raise InfrastructureError(
                f"the counts still change after {patience:.0f} s: the server is busy",
                where=str(folder),
            )
        before = now
        # Twice the writers' period, with room for a loaded machine.
        sleep(3 * PERIOD)


def _stamps(folder: Path, pattern: str) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in folder.glob(pattern)}
