# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.upstream import index

CONTENT = b"an archive"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the index serves, one entry a download."""
    contents: list[bytes] = []

    def download(project: str, filename: str, part: Path, say: object) -> None:
        part.write_bytes(contents.pop(0))

    monkeypatch.setattr(index, "_download", download)
    return contents


def _fetch() -> Path:
    return index.fetch("toy", "toy.tar.gz", SHA256, say=lambda line: None)


def test_a_file_is_downloaded_once(own_cache: Path, served: list[bytes]) -> None:
    served.append(CONTENT)
    assert _fetch().read_bytes() == CONTENT
    assert _fetch().read_bytes() == CONTENT


def test_other_bytes_than_pinned_are_refused_and_not_kept(
    own_cache: Path, served: list[bytes]
) -> None:
    served += [b"evil", CONTENT]
    with pytest.raises(InfrastructureError, match="expected " + SHA256):
        _fetch()
    assert [
        p for p in own_cache.rglob("*") if p.is_file() and p.suffix != ".lock"
    ] == []
    assert _fetch().read_bytes() == CONTENT


def test_a_damaged_copy_is_downloaded_anew(
    own_cache: Path, served: list[bytes]
) -> None:
    served += [CONTENT, CONTENT]
    _fetch().write_bytes(CONTENT[:3])
    assert _fetch().read_bytes() == CONTENT


def test_what_a_kill_left_is_swept(own_cache: Path, served: list[bytes]) -> None:
    served += [CONTENT]
    left = own_cache / "downloads" / SHA256 / ".part-x"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    _fetch()
    assert not left.exists()
