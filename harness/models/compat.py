# SPDX-License-Identifier: Apache-2.0
"""What a patch is worth at a release: ``results/compat.json``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from harness.models.base import Model

SCHEMA = 1

TagName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/+-]*$")]
"""A tag of any project; the upstream pin has a stricter form of its own."""


class Verdict(StrEnum):
    """What becomes of a patch at a release."""

    EXACT = "EXACT"
    """Every target is, byte for byte, what the patch was made for."""
    APPLIES = "APPLIES"
    """Merges cleanly onto other surroundings, and the change is where it belongs."""
    MOVED = "MOVED"
    """Merges cleanly, into a file that has another path in the release."""
    MERGED = "MERGED"
    """The release's tree already has the patch's own text."""
    MERGED_MODIFIED = "MERGED-MODIFIED"
    """The release has a form of its own of what the patch does."""
    PARTIAL = "PARTIAL"
    """Some hunks are in the release; the others still apply."""
    NOT_AFFECTED = "NOT-AFFECTED"
    """What the patch mends is not in this release."""
    CONFLICT = "CONFLICT"
    """Needed, and needs a person: upstream changed the same lines."""
    MISSING = "MISSING"
    """A target does not exist in the release, and nothing replaces it."""
    BLOCKED = "BLOCKED"
    """Needs an earlier patch that has no place in the release."""
    AMBIGUOUS = "AMBIGUOUS"
    """More than one place, or none that can be told to be the right one."""
    UNKNOWN = "UNKNOWN"
    """Not judged: the patch or the release could not be read. Never a verdict."""


FAILED = frozenset(
    {
        Verdict.CONFLICT,
        Verdict.MISSING,
        Verdict.BLOCKED,
        Verdict.AMBIGUOUS,
        Verdict.UNKNOWN,
    }
)
"""Verdicts after which a patch that needs this one is BLOCKED."""

CARRIED = frozenset({Verdict.EXACT, Verdict.APPLIES, Verdict.MOVED, Verdict.PARTIAL})
"""Verdicts with which there is still something to apply to the release."""

ABSORBED = frozenset({Verdict.MERGED, Verdict.MERGED_MODIFIED, Verdict.NOT_AFFECTED})
"""Verdicts with which a patch is no longer carried."""


class HunkState(StrEnum):
    """What becomes of one run of changed lines."""

    APPLIES = "applies"
    IN = "in"
    TOUCHING = "touching"
    """Its own lines are unchanged, the ones next to it are not: git calls that a
    conflict, and only a second signal can say otherwise."""
    CONFLICT = "conflict"
    AMBIGUOUS = "ambiguous"


class Hunk(Model):
    """One run of changed lines at a release."""

    path: str
    """Where it is, or would go, in the release."""
    line: int
    """Its first line there, from 1; in a conflict, the line where upstream differs."""
    symbol: str
    """Qualified name of the class or function around it; empty at module level."""
    added: int
    removed: int
    state: HunkState
    note: str = ""


class Cell(Model):
    """The verdict on one patch at one release, and what it rests on."""

    verdict: Verdict
    signal: str
    """What decided: blob ids, merge, syntax tree, paths, requirement."""
    detail: str = ""
    hunks: tuple[Hunk, ...] = ()
    """The hunks that do not simply apply."""
    moved: dict[str, str] = Field(default_factory=dict)
    """Target path to the path that the file has in the release."""
    hint: str = ""


class Release(Model):
    """One release, judged."""

    tag: TagName
    commit: str | None
    """As far as the release states it: wheels give an abbreviated id."""
    source: str
    """``git``, or the file on the index that was read."""
    verdicts: dict[str, Cell]
    failure: str = ""
    """Why the release could not be read; it then has no verdicts."""


class PatchInfo(Model):
    """What the table's column stands for."""

    title: str
    targets: tuple[str, ...]
    requires: tuple[str, ...] = ()
    pull_request: str = ""
    """Upstream status as declared; a hint only, the release's tree decides."""
    strip: int = 1
    """Leading path components that were taken off (``-p``)."""
    rules: bool = False
    failure: str = ""
    """Why the patch could not be read."""


class Compatibility(Model):
    """Every patch at every release."""

    schema_version: int = SCHEMA
    base: str | None
    """The tag that the series is made for."""
    patches: dict[str, PatchInfo]
    releases: tuple[Release, ...]

    def pinned_failures(self) -> tuple[str, ...]:
        """Patches that are not EXACT at the tag they were made for."""
        return tuple(
            number
            for release in self.releases
            if release.tag == self.base
            for number, cell in release.verdicts.items()
            if cell.verdict is not Verdict.EXACT
        )
