# SPDX-License-Identifier: Apache-2.0
"""Which of our own code a measurement ran: a part of its key."""

from __future__ import annotations

import functools
import hashlib

from harness.paths import default_root

PROBES = "probes"
REFERENCE = "reference"
"""Packages of ``harness/inside`` that only one kind of process loads: the others may
not import them (pyproject.toml)."""


def served_program() -> str:
    """A digest of our code that a server may load."""
    return _digest(frozenset({PROBES, REFERENCE}))


def probed_program() -> str:
    """A digest of our code that a probe may load."""
    return _digest(frozenset({REFERENCE}))


@functools.cache
def _digest(without: frozenset[str]) -> str:
    digest = hashlib.sha256()
    inside = default_root() / "harness" / "inside"
    for path in sorted(inside.rglob("*.py")):
        name = path.relative_to(inside)
        if name.parts[0] not in without:
            digest.update(str(name).encode() + path.read_bytes())
    return digest.hexdigest()
