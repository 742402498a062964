# SPDX-License-Identifier: Apache-2.0
"""A source distribution as a git repository with one root commit.

The commit's author, date and message are fixed, so every machine that imports the same
archive gets the same commit id.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from harness.errors import InfrastructureError
from harness.git import Git
from harness.models.pin import SourceArchive, Upstream

_IDENTITY = "vLLM source archive <archive@vllm-patch-series.invalid>"
_EPOCH = "946684800 +0000"
"""2000-01-01: the archive itself carries no date worth keeping."""


def import_archive(archive: Path, upstream: Upstream, into: Path) -> str:
    """Make a bare repository at ``into`` holding the archive's tree.

    The pinned tag's name points to the root commit. Files that the archive's build
    wrote (``upstream.archive.generated``) are left out.

    Returns:
        The commit id.

    Raises:
        InfrastructureError: The archive holds something other than the plain files
            of one top-level folder.
    """
    into.mkdir(parents=True)
    git = Git(into)
    git.run("init", "-q", "--bare", "--template=")
    with tempfile.TemporaryFile() as stream:
        _write_stream(archive, upstream, stream)
        stream.seek(0)
        git.run("fast-import", "--quiet", "--done", stdin=stream)
    return git.text("rev-parse", f"refs/tags/{upstream.tag}")


def _write_stream(archive: Path, upstream: Upstream, stream: BinaryIO) -> None:
    entries: list[tuple[str, str]] = []
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            if member.isdir():
                continue
            path = _upstream_path(member, archive)
            if _is_generated(path, upstream.archive):
                continue
            content = tar.extractfile(member)
            data = (content or io.BytesIO()).read()
            mode = "100755" if member.mode & 0o100 else "100644"
            entries.append((path, mode))
            stream.write(f"blob\nmark :{len(entries)}\ndata {len(data)}\n".encode())
            stream.write(data + b"\n")
    message = (
        f"{upstream.project} {upstream.tag}: source distribution\n\n"
        f"{upstream.archive.filename}\nsha256 {upstream.archive.sha256}\n"
    ).encode()
    stream.write(
        f"commit refs/tags/{upstream.tag}\n"
        f"author {_IDENTITY} {_EPOCH}\ncommitter {_IDENTITY} {_EPOCH}\n"
        f"data {len(message)}\n".encode()
    )
    stream.write(message + b"\n")
    for number, (path, mode) in enumerate(entries, start=1):
        stream.write(f"M {mode} :{number} {path}\n".encode())
    stream.write(b"\ndone\n")


def _upstream_path(member: tarfile.TarInfo, archive: Path) -> str:
    parts = PurePosixPath(member.name).parts
    plain = member.isfile() and len(parts) > 1 and parts[0] != "/"
    if not plain or ".." in parts or "\n" in member.name or '"' in member.name:
        raise InfrastructureError(
            f"unexpected entry {member.name!r}", where=archive.name
        )
    return "/".join(parts[1:])


def _is_generated(path: str, sdist: SourceArchive) -> bool:
    return any(
        path.startswith(name) if name.endswith("/") else path == name
        for name in sdist.generated
    )
