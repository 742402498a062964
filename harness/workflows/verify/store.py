# SPDX-License-Identifier: Apache-2.0
"""Facts of earlier starts, so that an interrupted run resumes where it was.

A start is known by everything that could change what it yields. A timing's key names
its block and every state timed in it: it is never compared with another day's.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import write_atomic
from harness.models.base import load
from harness.models.boots import BootFacts, Part
from harness.workflows.verify.boots import Bench, Start
from harness.workflows.verify.machine import machine
from harness.workflows.verify.program import served_program

_FORMAT = 2
"""Raised when facts of an older program must not be reused."""


@dataclass(frozen=True)
class Store:
    """Facts by key, one file each, whole or absent.

    Args:
        folder: Where they are.
        force: Ignore what is there, and measure anew.
    """

    folder: Path
    force: bool = False

    def get(self, key: str) -> BootFacts | None:
        """Stored facts; None if there are none or they can't be read."""
        path = self._path(key)
        if self.force or not path.exists():
            return None
        try:
            return load(path, BootFacts)
        except UsageError:
            # Written by another version of this program: measuring again is safe.
            return None

    def put(self, key: str, facts: BootFacts) -> None:
        """Keep facts for later runs."""
        write_atomic(self._path(key), facts.model_dump_json(indent=1) + "\n")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def key(bench: Bench, start: Start) -> str:
    """The key of a start: a hash over all that its facts depend on."""
    parts: dict[str, Any] = {
        "format": _FORMAT,
        "content": start.state.content,
        "setup": start.setup.model_dump(mode="json"),
        "parts": sorted(part.value for part in start.parts),
        "quick": bench.quick,
        "program": served_program(),
        "model": bench.model.digest,
        "environment": bench.environment.fingerprint(),
        "client": bench.client.environment.fingerprint(),
        # Two names of one state are two measurements of it (base against base).
        "state": start.state.label if start.state.twin else "",
        "machine": machine().model_dump(mode="json"),
        "questions": {
            name: questions.source.model_dump(mode="json")
            for name, questions in sorted(bench.questions.items())
        },
    }
    if Part.TIMING in start.parts:
        parts["timing"] = [start.round, start.block, start.seed, *start.peers]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
