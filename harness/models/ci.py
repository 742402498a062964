# SPDX-License-Identifier: Apache-2.0
"""What one CI job found out about one release: ``ci.json``."""

from __future__ import annotations

from harness.models.base import Model
from harness.models.compat import TagName, Verdict
from harness.models.series import Number


class CiStep(Model):
    """One command of the job."""

    name: str
    command: tuple[str, ...]
    """As typed, without the interpreter."""
    exit_code: int
    seconds: float


class CiRun(Model):
    """The whole job; written after each step, and before its verdict is given."""

    tag: TagName
    verdicts: dict[str, Verdict] = {}
    carried: tuple[Number, ...] = ()
    """Patches that something is left to apply of; without any, nothing is measured."""
    steps: tuple[CiStep, ...] = ()
    exit_code: int
    note: str = ""


class News(Model):
    """One thing that a maintainer should hear of."""

    tag: TagName
    title: str
    """Names the issue: the same patch and verdict always give the same title."""
    body: str
