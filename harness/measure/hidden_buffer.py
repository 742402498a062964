# SPDX-License-Identifier: Apache-2.0
"""Reading what a serving worker noted of its target model's hidden-state buffer.

The other half, inside the worker, is harness/inside/hidden_buffer.py.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from harness.errors import InfrastructureError
from harness.inside.hidden_buffer import FOLDER as FOLDER_VARIABLE
from harness.measure.settling import await_settled
from harness.models.hidden_buffer import HiddenBufferFacts

PLUGIN = ("harness_hidden_buffer", "harness.inside.hidden_buffer:main")
"""For the overlay's plugins; a profile that is measured so names it."""

__all__ = ["FOLDER_VARIABLE", "PLUGIN", "collect", "settled"]

_PATTERN = "buffer-*.json"


def settled(folder: Path) -> HiddenBufferFacts:
    """Wait until the worker of an idle server has written all, and read it.

    Raises:
        InfrastructureError: It goes on changing, or :func:`collect` fails.
    """
    await_settled(folder, _PATTERN)
    return collect(folder)


def collect(folder: Path) -> HiddenBufferFacts:
    """What the one worker noted.

    Raises:
        InfrastructureError: No process or several noted something, it is nonsense, or
            the target never ran.
    """
    paths = sorted(folder.glob(_PATTERN))
    if len(paths) != 1:
        raise InfrastructureError(
            f"{len(paths)} processes watched a target's buffer, one runs it",
            where=str(folder),
            fix="the plugin may have failed to load, see the server's log",
        )
    try:
        data = json.loads(paths[0].read_text(encoding="utf-8"))
        facts = HiddenBufferFacts.model_validate(data)
    except (OSError, ValueError, ValidationError) as error:
        raise InfrastructureError(
            f"unreadable facts: {str(error).splitlines()[0]}", where=str(paths[0])
        ) from error
    if not facts.rows:
        raise InfrastructureError("ran no forward of the target", where=str(paths[0]))
    return facts
