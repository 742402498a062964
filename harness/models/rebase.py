# SPDX-License-Identifier: Apache-2.0
"""Carrying the series to another release: what was done, and what is left to do."""

from __future__ import annotations

from enum import StrEnum

from harness.models.base import Model
from harness.models.compat import Cell
from harness.models.pin import BlobId, Tag, Upstream
from harness.models.series import Number


class Fate(StrEnum):
    """What became of one patch."""

    CARRIED = "carried"
    RESOLVED = "resolved"
    """Carried after a person settled the conflict."""
    DROPPED = "dropped"
    """The release has it, or does not need it."""
    LEFT = "left out"
    """It has no place in the release, or needs one that has none."""


class Step(Model):
    """One patch, done."""

    number: Number
    fate: Fate
    cell: Cell
    commit: BlobId | None = None


class RebaseState(Model):
    """A rebase under way, kept in the work repository's ``.git`` folder."""

    target: Upstream
    base: BlobId
    """The release's commit in the work repository."""
    old_base: BlobId
    old_head: BlobId
    """The series at its pin, for the comparison of the two."""
    steps: tuple[Step, ...] = ()
    waiting: Number | None = None
    """The patch whose conflict is in the worktree."""


class Rebased(Model):
    """A finished rebase: ``patches/<tag>/rebase.json``."""

    tag: Tag
    base: Tag
    commit: str
    steps: tuple[Step, ...]
    range_diff: tuple[str, ...]
    """``git range-diff`` of the series at its pin and at the release, line by line."""
