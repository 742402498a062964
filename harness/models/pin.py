# SPDX-License-Identifier: Apache-2.0
"""The upstream pin: ``configs/upstream.yaml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from harness.errors import UsageError
from harness.models.base import Model

BlobId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
"""A full git object id (SHA-1)."""

CommitId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")]
"""A commit id, maybe abbreviated: wheels state no more than that."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

Tag = Annotated[str, StringConstraints(pattern=r"^v\d+\.\d+\.\d+(rc\d+|\.post\d+)?$")]
"""A vLLM release tag."""


class Identity(Model):
    """A name and mail address as git writes them."""

    name: str
    email: str


class SourceArchive(Model):
    """The release's source distribution on the package index."""

    filename: str
    sha256: Sha256
    generated: tuple[str, ...]
    """Paths (or folders, with a final slash) that the build wrote: not upstream's."""


class Upstream(Model):
    """Which vLLM the series is made for, and how to know it when we see it."""

    project: str
    """The distribution's name on the package index."""
    repository: str
    """Clone URL of the upstream repository."""
    tag: Tag
    commit: CommitId
    wheel_commit: CommitId | None = None
    """The commit that the wheels on the index say they were built from."""
    sdist: SourceArchive | None = None
    """None where the index was not asked: the release then comes from git alone."""
    author: Identity
    """The one author of every patch in the series."""
    targets: dict[str, BlobId]
    """Every file a patch touches, with its git blob id at the pin."""

    @property
    def archive(self) -> SourceArchive:
        """The source archive.

        Raises:
            UsageError: None is recorded.
        """
        if self.sdist is None:
            raise UsageError(
                "no source archive is recorded",
                where=self.tag,
                fix="give SOURCE=git or the path of a clone",
            )
        return self.sdist

    @property
    def version(self) -> str:
        """The tag as the package index writes it."""
        return self.tag.removeprefix("v")
