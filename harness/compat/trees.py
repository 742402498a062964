# SPDX-License-Identifier: Apache-2.0
"""A release's files, wherever they come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from packaging.version import InvalidVersion, Version

from harness.files import blob_id


class Tree(Protocol):
    """The files of one release; the first use of each may fetch it.

    All methods raise ``InfrastructureError`` when the release can't be read.
    """

    @property
    def tag(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def remote(self) -> bool:
        """Whether reading one more file costs a download."""
        ...

    def prepare(self, paths: Collection[str]) -> None:
        """Fetch what is needed to answer for ``paths``, in one go."""
        ...

    def commit(self) -> str | None:
        """The commit id that the release states, maybe abbreviated."""
        ...

    def fingerprints(self) -> Mapping[str, str]:
        """Every path in the release with a value that equal contents share."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's content; None when the release has no such file."""
        ...

    def covers(self, path: str) -> bool:
        """Whether this source would hold ``path`` if the release had it."""
        ...


class Releases(Protocol):
    """Where releases come from."""

    def tags(self) -> list[str]:
        """All release tags, oldest first."""
        ...

    def tree(self, tag: str) -> Tree:
        """The files of ``tag``.

        Raises:
            UsageError: There is no such release.
        """
        ...

    @property
    def downloaded(self) -> int:
        """Bytes received so far."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class PlainTree:
    """Files held in memory."""

    tag: str
    files: Mapping[str, bytes]
    source: str = "memory"
    remote: bool = False
    stated_commit: str | None = field(default=None)

    def prepare(self, paths: Collection[str]) -> None:
        del paths

    def commit(self) -> str | None:
        return self.stated_commit

    def fingerprints(self) -> Mapping[str, str]:
        return {path: blob_id(data) for path, data in self.files.items()}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def covers(self, path: str) -> bool:
        del path
        return True


def version_of(tag: str) -> Version | None:
    """The version that a tag names; None for other tags."""
    try:
        return Version(tag.removeprefix("v"))
    except InvalidVersion:
        return None
