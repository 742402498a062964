# SPDX-License-Identifier: Apache-2.0
"""The patches to judge: our series, a quilt series, or a folder of plain diffs."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.compat.diff import NOWHERE, DiffHunk, FileDiff, parse
from harness.compat.rules import load_rules
from harness.errors import UsageError
from harness.models.base import load
from harness.models.rules import PatchRules
from harness.models.series import PatchEntry, Series

SERIES_FILE = "series.yaml"
QUILT_FILE = "series"
RULES_FOLDER = "rules"
_SUFFIXES = (".patch", ".diff", ".patch.gz", ".diff.gz")
_LARGEST = 64 * 2**20
"""Bytes; a compressed patch that grows beyond this is taken for damaged."""


@dataclass(frozen=True)
class Target:
    """One file that a patch changes, its paths without the stripped components."""

    path: str
    new_path: str
    hunks: tuple[DiffHunk, ...]
    old_blob: str
    creates: bool
    deletes: bool


@dataclass(frozen=True)
class CarriedPatch:
    """One patch, read.

    Attributes:
        name: Number in our series, else the file's name.
        strip: Leading path components taken off.
        failure: Why it could not be read; it then has no targets.
    """

    name: str
    file: Path
    title: str
    targets: tuple[Target, ...]
    strip: int = 1
    requires: tuple[str, ...] = ()
    rules: PatchRules | None = None
    pull_request: str = ""
    failure: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(target.path for target in self.targets))


@dataclass(frozen=True)
class Carried:
    """A series: what it is made for (if it says so) and its patches, in order."""

    base: str | None
    patches: tuple[CarriedPatch, ...]


@dataclass(frozen=True)
class _Listed:
    file: Path
    name: str
    strip: int | None = None
    entry: PatchEntry | None = None


def read_series(folder: Path, known: Collection[str]) -> Carried:
    """Read every patch of the series in ``folder``.

    Args:
        known: Paths of the base tree, by which the strip level is found.

    Raises:
        UsageError: There is no series, or its list names a file that is not there. A
            patch that can't be parsed is no error here: its ``failure`` says so.
    """
    base, listed = _list(folder)
    names = frozenset(known)
    return Carried(base, tuple(_read(one, folder, names) for one in listed))


def made_for(folder: Path) -> str | None:
    """The release that the series in ``folder`` says it is for.

    Raises:
        UsageError: There is no series.
    """
    return _list(folder)[0]


def _list(folder: Path) -> tuple[str | None, list[_Listed]]:
    if (folder / SERIES_FILE).exists():
        series = load(folder / SERIES_FILE, Series)
        return series.base, [
            _Listed(folder / entry.file, entry.number, 1, entry)
            for entry in series.patches
        ]
    if (folder / QUILT_FILE).is_file():
        return None, _quilt(folder)
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=str(folder))
    files = sorted(f for f in folder.iterdir() if f.name.endswith(_SUFFIXES))
    if not files:
        raise UsageError(
            "holds no series",
            where=str(folder),
            fix=f"expected {SERIES_FILE}, a quilt series file, or *.patch, *.diff, .gz",
        )
    return None, [_Listed(file, file.name) for file in files]


def _quilt(folder: Path) -> list[_Listed]:
    """Lines of ``name [-pN] [-R]``; ``#`` starts a comment."""
    listed: list[_Listed] = []
    text = (folder / QUILT_FILE).read_text(encoding="utf-8", errors="surrogateescape")
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if not words:
            continue
        where, strip = f"{folder / QUILT_FILE}:{number}", 1
        for option in words[1:]:
            if option == "-pab":
                strip = 1
            elif re.fullmatch(r"-p\d", option):
                strip = int(option[2:])
            else:
                raise UsageError(
                    f"option {option} is not supported",
                    where=where,
                    fix="-p0 to -p9 are; write a reversed patch the right way round",
                )
        listed.append(_Listed(folder / words[0], words[0], strip))
    return listed


def _read(listed: _Listed, folder: Path, known: frozenset[str]) -> CarriedPatch:
    entry = listed.entry
    patch = CarriedPatch(
        name=listed.name,
        file=listed.file,
        title=listed.name,
        targets=(),
        requires=entry.requires if entry else (),
        pull_request=_status(entry) if entry else "",
    )
    rules = load_rules(folder / RULES_FOLDER, listed.name.split(".", 1)[0])
    try:
        diff = parse(_content(listed.file), str(listed.file))
    except UsageError as error:
        return replace(patch, failure=error.line())
    strip = listed.strip
    if strip is None:
        strip = strip_level(diff.files, known)
    return replace(
        patch,
        title=diff.title or listed.name,
        targets=tuple(_target(file, strip) for file in diff.files),
        strip=strip,
        rules=rules,
    )


def _status(entry: PatchEntry) -> str:
    return " ".join((entry.upstream.state.value, *entry.upstream.links))


def _content(file: Path) -> bytes:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"can't be read: {error.strerror}", where=str(file)) from error
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        with gzip.open(file) as stream:
            data = stream.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"damaged gzip file: {error}", where=str(file)) from error
    if len(data) > _LARGEST:
        raise UsageError("grows beyond 64 MiB when unpacked", where=str(file))
    return data


def strip_level(files: Sequence[FileDiff], known: Collection[str]) -> int:
    """How many leading components to take off so that the paths are the tree's.

    The level at which most of the changed files exist; of several, the one nearest to
    git's own habit (1), which also stands when none exists.
    """

    def score(level: int) -> tuple[int, int]:
        paths = (_stripped(f.old_path, level) for f in files if not f.creates)
        return sum(path in known for path in paths), -abs(level - 1)

    deepest = max((f.old_path.count("/") for f in files), default=1)
    return max(range(min(deepest, 8) + 1), key=score)


def _target(file: FileDiff, strip: int) -> Target:
    old, new = _stripped(file.old_path, strip), _stripped(file.new_path, strip)
    return Target(
        path=new if file.creates else old,
        new_path=old if file.deletes else new,
        hunks=tuple(file.hunks),
        old_blob="" if set(file.old_blob) <= {"0"} else file.old_blob,
        creates=file.creates,
        deletes=file.deletes,
    )


def _stripped(path: str, level: int) -> str:
    parts = path.split("/")
    return path if path == NOWHERE else "/".join(parts[min(level, len(parts) - 1) :])
