# SPDX-License-Identifier: Apache-2.0
"""Reading anyone's unified diffs: git's with or without mail, index lines or prefixes.

Bytes stay bytes: a patch may hold any encoding, carriage returns, and files without a
final newline. Hunks are read by their counts, so a mail signature (``-- ``) or text
after a hunk is never taken for a removed line.
"""

from __future__ import annotations

import email
import email.policy
import re
from dataclasses import dataclass, field

from harness.errors import UsageError

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_GIT = re.compile(rb"^diff --git (.+)$")
_INDEX = re.compile(rb"^index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})")
_NO_NEWLINE = b"\\ No newline"
NOWHERE = "/dev/null"


@dataclass(frozen=True)
class DiffHunk:
    """One hunk.

    Attributes:
        start: Line of the old file where it begins, from 0.
        lines: ``(tag, content)`` with tag one of space, minus, plus.
        at: Line of the patch file that holds the ``@@``.
    """

    start: int
    lines: tuple[tuple[str, bytes], ...]
    at: int

    @property
    def old(self) -> tuple[bytes, ...]:
        return tuple(content for tag, content in self.lines if tag != "+")

    @property
    def new(self) -> tuple[bytes, ...]:
        return tuple(content for tag, content in self.lines if tag != "-")


@dataclass
class FileDiff:
    """The changes to one file, with its paths as the patch writes them."""

    old_path: str
    new_path: str
    at: int
    hunks: list[DiffHunk] = field(default_factory=list)
    old_blob: str = ""
    new_blob: str = ""
    renamed: bool = False

    @property
    def creates(self) -> bool:
        return self.old_path == NOWHERE

    @property
    def deletes(self) -> bool:
        return self.new_path == NOWHERE


@dataclass(frozen=True)
class Diff:
    """One patch file."""

    title: str
    files: tuple[FileDiff, ...]


def parse(data: bytes, where: str) -> Diff:
    """Read a patch.

    Raises:
        UsageError: It holds no diff, a binary one, or a malformed hunk; the message
            names the file and the line.
    """
    if data.count(b"\r\n") == data.count(b"\n") > 0:
        # The whole file went through a line-end conversion; content did too.
        data = data.replace(b"\r\n", b"\n")
    files = _Reader(data.splitlines(keepends=True), where).files()
    if not files:
        raise UsageError("holds no diff", where=f"{where}:1")
    return Diff(_title(data), tuple(files))


class _Reader:
    def __init__(self, lines: list[bytes], where: str) -> None:
        self._lines = lines
        self._where = where
        self._i = 0
        self._files: list[FileDiff] = []
        self._git: FileDiff | None = None

    def files(self) -> list[FileDiff]:
        while self._i < len(self._lines):
            line = self._lines[self._i].rstrip(b"\r\n")
            if found := _GIT.match(line):
                self._begin_git(found.group(1))
            elif line.startswith(b"--- ") and self._next().startswith(b"+++ "):
                self._begin_plain(line)
            elif _HUNK.match(line):
                self._hunk(line)
            elif self._git is not None:
                self._extended(line)
            self._i += 1
        for file in self._files:
            if not file.hunks and not file.renamed and not self._is_empty(file):
                raise self._error("no hunk follows", file.at)
        return self._files

    def _next(self) -> bytes:
        return self._lines[self._i + 1] if self._i + 1 < len(self._lines) else b""

    def _begin_git(self, names: bytes) -> None:
        old, new = _git_names(names)
        self._git = FileDiff(old, new, self._i + 1)
        self._files.append(self._git)

    def _begin_plain(self, line: bytes) -> None:
        old = _path(line[4:])
        new = _path(self._next().rstrip(b"\r\n")[4:])
        if self._git is not None and not self._git.hunks:
            self._git.old_path, self._git.new_path = old, new
        else:
            self._files.append(FileDiff(old, new, self._i + 1))
        self._git = None
        self._i += 1

    def _extended(self, line: bytes) -> None:
        assert self._git is not None
        if found := _INDEX.match(line):
            self._git.old_blob = found.group(1).decode()
            self._git.new_blob = found.group(2).decode()
        elif line.startswith(b"rename from "):
            self._git.old_path, self._git.renamed = _path(line[12:]), True
        elif line.startswith(b"rename to "):
            self._git.new_path = _path(line[10:])
        elif line.startswith(b"new file mode"):
            self._git.old_path = NOWHERE
        elif line.startswith(b"deleted file mode"):
            self._git.new_path = NOWHERE
        elif line.startswith((b"GIT binary patch", b"Binary files ")):
            raise self._error("a binary diff, which can't be merged", self._i + 1)

    def _hunk(self, header: bytes) -> None:
        if not self._files:
            raise self._error("a hunk before any file name", self._i + 1)
        found = _HUNK.match(header)
        assert found is not None
        counts = [int(found.group(n) or b"1") for n in (2, 4)]
        at, lines = self._i + 1, []
        while counts[0] > 0 or counts[1] > 0:
            self._i += 1
            if self._i >= len(self._lines):
                raise self._error("the hunk ends before its line count", at)
            tag, content = self._content(self._lines[self._i])
            counts[0] -= tag != "+"
            counts[1] -= tag != "-"
            if min(counts) < 0:
                raise self._error("the hunk has more lines than it says", self._i + 1)
            if self._next().startswith(_NO_NEWLINE):
                content = content.rstrip(b"\n")
                self._i += 1
            lines.append((tag, content))
        start = int(found.group(1))
        # For an empty old side, git names the line before the insertion.
        start -= 0 if found.group(2) == b"0" else 1
        self._files[-1].hunks.append(DiffHunk(max(start, 0), tuple(lines), at))

    def _content(self, line: bytes) -> tuple[str, bytes]:
        if line in (b"\n", b"\r\n"):
            # Editors and mail programs strip the single space of an empty line.
            return " ", line
        tag = line[:1].decode("latin-1")
        if tag not in " +-":
            raise self._error("a line in a hunk starts with none of ' +-'", self._i + 1)
        return tag, line[1:]

    def _is_empty(self, file: FileDiff) -> bool:
        return file.creates or file.deletes

    def _error(self, what: str, line: int) -> UsageError:
        return UsageError(what, where=f"{self._where}:{line}")


def _git_names(names: bytes) -> tuple[str, str]:
    """Both paths of a ``diff --git`` line; exact only where they are alike."""
    if names.startswith(b'"'):
        parts = re.findall(rb'"(?:[^"\\]|\\.)*"|\S+', names)
        return _path(parts[0]), _path(parts[-1])
    half = len(names) // 2
    for middle in (i for i in range(len(names)) if names[i : i + 1] == b" "):
        old, new = names[:middle], names[middle + 1 :]
        if old.split(b"/", 1)[-1] == new.split(b"/", 1)[-1]:
            return _path(old), _path(new)
    return _path(names[:half]), _path(names[half + 1 :])


def _path(raw: bytes) -> str:
    raw = raw.rstrip(b"\r\n")
    if raw.startswith(b'"'):
        inner = raw[1 : raw.index(b'"', 1) if raw.count(b'"') == 2 else -1]
        return _unquote(inner).decode("utf-8", "surrogateescape")
    return raw.split(b"\t", 1)[0].rstrip().decode("utf-8", "surrogateescape")


_ESCAPES = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\", b"r": b"\r"}


def _unquote(raw: bytes) -> bytes:
    def one(found: re.Match[bytes]) -> bytes:
        code = found.group(1)
        return bytes([int(code, 8)]) if code.isdigit() else _ESCAPES.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", one, raw)


def _title(data: bytes) -> str:
    """The mail's subject, or the first line of any description, or nothing."""
    if re.match(rb"(From [0-9a-f]{40} |[A-Za-z-]+: )", data):
        mail = email.message_from_bytes(data[:20000], policy=email.policy.default)
        subject = str(mail["subject"] or "").replace("\n", " ")
        return re.sub(r"^\[PATCH[^\]]*\]\s*", "", subject).strip()
    first = data.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    return "" if re.match(r"(diff |--- |Index: |@@|index )", first) else first
