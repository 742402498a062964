# SPDX-License-Identifier: Apache-2.0
"""The patch series: ``patches/series.yaml``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from harness.models.base import Model
from harness.models.pin import BlobId, Tag

Number = Annotated[str, StringConstraints(pattern=r"^\d{4}$")]


class UpstreamState(StrEnum):
    """Where a patch stands upstream (the field's common vocabulary)."""

    PENDING = "Pending"
    SUBMITTED = "Submitted"
    BACKPORT = "Backport"
    DENIED = "Denied"
    INAPPROPRIATE = "Inappropriate"


class UpstreamStatus(Model):
    """What upstream has of this patch."""

    state: UpstreamState
    note: str
    links: tuple[str, ...] = ()


class Target(Model):
    """One file a patch changes, with its git blob ids before and after."""

    path: str
    before: BlobId
    after: BlobId


class CollectiveClaim(Model):
    """A collective of the draft's forward that the patch changes in a served model."""

    kind: str
    """Group and operation, as vLLM names them: ``tp.all_gather``."""
    bytes_ratio: Annotated[float, Field(gt=0)]
    """Bytes per row that a rank hands in, patched over base."""


class HiddenBufferClaim(Model):
    """A model whose hidden-state buffer exists, with the patch, only for drafts that
    read it."""

    module: str
    """Of the model's class."""
    methods: tuple[str, ...]
    """Speculative methods that read it: for these nothing changes."""


class PatchEntry(Model):
    """One patch: what reviewers need to know that a diff does not say."""

    number: Number
    file: str
    summary: Annotated[str, StringConstraints(min_length=20)]
    """One paragraph for the reviewer."""
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]
    requires: tuple[Number, ...] = ()
    """Numbers of the patches that must be applied first for this one to be safe."""
    upstream: UpstreamStatus
    remove_when: str
    collectives: tuple[CollectiveClaim, ...] = ()
    """All changes that a served draft's collectives may show; each must show."""
    hidden_buffer: HiddenBufferClaim | None = None
    """The one change that a served target's buffer may show."""


class Series(Model):
    """The series in the order in which it is applied."""

    base: Tag
    patches: tuple[PatchEntry, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Series:
        seen: set[str] = set()
        for patch in self.patches:
            if patch.number in seen:
                raise ValueError(f"number {patch.number} is used twice")
            if not patch.file.startswith(f"{patch.number}-"):
                raise ValueError(f"{patch.file} does not start with {patch.number}-")
            for number in patch.requires:
                if number not in seen:
                    raise ValueError(
                        f"{patch.number} requires {number}, which does not come before"
                    )
            seen.add(patch.number)
        if list(seen) and [p.number for p in self.patches] != sorted(seen):
            raise ValueError("patches are not in the order of their numbers")
        return self

    def patch(self, number: str) -> PatchEntry:
        """The entry with this number (KeyError if there is none)."""
        for patch in self.patches:
            if patch.number == number:
                return patch
        raise KeyError(number)

    def paths(self) -> tuple[str, ...]:
        """Every path any patch changes, sorted."""
        return tuple(sorted({t.path for p in self.patches for t in p.targets}))

    def steps(self) -> dict[str, list[str]]:
        """The blob ids that each file has along the series, the base's first."""
        steps: dict[str, list[str]] = {}
        for patch in self.patches:
            for target in patch.targets:
                steps.setdefault(target.path, [target.before]).append(target.after)
        return steps
