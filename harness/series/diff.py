# SPDX-License-Identifier: Apache-2.0
"""A strict reader for git's unified diffs, keeping line numbers for messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)(?: (\d{6}))?$")
_NAMES = re.compile(rb"^diff --git a/(.+) b/(.+)$")
_EXTENDED = (
    b"old mode ",
    b"new mode ",
    b"deleted file mode ",
    b"new file mode ",
    b"copy from ",
    b"copy to ",
    b"rename from ",
    b"rename to ",
    b"similarity index ",
    b"dissimilarity index ",
    b"GIT binary patch",
    b"Binary files ",
)


@dataclass(frozen=True)
class Hunk:
    """One hunk; ``line`` is its header's line number in the patch file."""

    line: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    body: tuple[bytes, ...]

    @property
    def leading_context(self) -> int:
        """Unchanged lines before the first change."""
        return _leading(self.body)

    @property
    def trailing_context(self) -> int:
        """Unchanged lines after the last change."""
        return _leading(tuple(reversed(self.body)))

    def problem(self) -> str | None:
        """Why the header and the lines don't fit, or None."""
        old = sum(line[:1] in (b" ", b"-") for line in self.body)
        new = sum(line[:1] in (b" ", b"+") for line in self.body)
        if (old, new) == (self.old_count, self.new_count):
            return None
        return (
            f"hunk header promises {self.old_count} old and {self.new_count} new "
            f"lines, found {old} and {new}"
        )


@dataclass
class FileDiff:
    """The part of a patch that changes one file."""

    line: int
    old_path: str
    new_path: str
    before: str = ""
    after: str = ""
    index_line: int = 0
    extended: list[tuple[int, str]] = field(default_factory=list)
    """Header lines other than the index line (modes, renames, binary)."""
    hunks: list[Hunk] = field(default_factory=list)
    strays: list[tuple[int, str]] = field(default_factory=list)
    """Lines that belong to no header and no hunk."""


def parse_diff(data: bytes, first_line: int = 1) -> list[FileDiff]:
    """Read a diff; ``first_line`` is the line number that its first line has.

    Nothing is rejected here: what is not understood is kept as a stray line, for
    lint to name.
    """
    files: list[FileDiff] = []
    lines = data.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    position = 0
    while position < len(lines):
        line, number = lines[position], first_line + position
        names = _NAMES.match(line)
        if names:
            files.append(FileDiff(number, _text(names[1]), _text(names[2])))
        elif files and (header := _HUNK.match(line)):
            body = _hunk_body(lines[position + 1 :], header)
            files[-1].hunks.append(_hunk(number, header, body))
            position += len(body)
        elif files:
            _header_line(files[-1], line, number)
        position += 1
    return files


def _hunk(number: int, header: re.Match[bytes], body: tuple[bytes, ...]) -> Hunk:
    old, new = _counts(header)
    return Hunk(number, int(header[1]), old, int(header[3]), new, body)


def _counts(header: re.Match[bytes]) -> tuple[int, int]:
    return int(header[2] or 1), int(header[4] or 1)


def _hunk_body(lines: list[bytes], header: re.Match[bytes]) -> tuple[bytes, ...]:
    old, new = _counts(header)
    body: list[bytes] = []
    for line in lines:
        kind = line[:1]
        if kind == b"\\":
            body.append(line)
            continue
        if (old <= 0 and new <= 0) or kind not in (b" ", b"+", b"-"):
            break
        old -= kind in (b" ", b"-")
        new -= kind in (b" ", b"+")
        body.append(line)
    return tuple(body)


def _header_line(file: FileDiff, line: bytes, number: int) -> None:
    index = _INDEX.match(line)
    if index:
        file.before, file.after = _text(index[1]), _text(index[2])
        file.index_line = number
    elif line.startswith(_EXTENDED):
        file.extended.append((number, _text(line)))
    elif not line.startswith((b"--- ", b"+++ ")):
        file.strays.append((number, _text(line)))


def _leading(body: tuple[bytes, ...]) -> int:
    count = 0
    for line in body:
        if line[:1] not in (b" ", b"\\"):
            break
        count += line[:1] == b" "
    return count


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
