# SPDX-License-Identifier: Apache-2.0
"""The mail form of a patch: what ``git format-patch`` writes, plus our metadata block.

The block stands below the ``---`` line, where ``git am`` drops it: reviewers of this
repository read it, upstream never sees it. Its source is the series file; export
renders it, and lint holds the two equal.
"""

from __future__ import annotations

import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.git import Git
from harness.models.pin import Identity, Upstream
from harness.models.series import PatchEntry

SEPARATOR = b"\n---\n"


@dataclass(frozen=True)
class Message:
    """Author and commit message, as ``git am`` would take them."""

    author: Identity
    date: str
    subject: str
    body: str

    @property
    def text(self) -> str:
        """The commit message."""
        return f"{self.subject}\n\n{self.body}".rstrip("\n") + "\n"


@dataclass(frozen=True)
class PatchMail:
    """A patch file taken apart.

    Attributes:
        head: Mail headers and message, up to the ``---`` line.
        notes: Metadata block and diffstat.
        diff: From the first ``diff --git`` line on.
        diff_line: Line number of the diff's first line.
    """

    head: bytes
    notes: bytes
    diff: bytes
    diff_line: int


def split(raw: bytes, *, where: str) -> PatchMail:
    """Take a patch file apart.

    Raises:
        UsageError: There is no ``---`` line or no diff.
    """
    head, found, rest = raw.partition(SEPARATOR)
    if not found:
        raise UsageError("has no --- line between message and diff", where=where)
    start = 0 if rest.startswith(b"diff --git ") else rest.find(b"\ndiff --git ") + 1
    if start == 0 and not rest.startswith(b"diff --git "):
        raise UsageError("holds no diff", where=where)
    notes = rest[:start]
    line = (head + found + notes).count(b"\n") + 1
    return PatchMail(head, notes, rest[start:], line)


def read_message(git: Git, path: Path) -> Message:
    """Author, date and message of the patch at ``path``, read by git itself.

    Raises:
        UsageError: The file is no patch mail.
    """
    with tempfile.TemporaryDirectory() as folder, path.open("rb") as stream:
        body = Path(folder) / "body"
        done = git.run(
            "mailinfo", "-b", "--encoding=UTF-8", str(body), f"{folder}/diff",
            stdin=stream, check=False,
        )  # fmt: skip
        fields = dict(line.split(": ", 1) for line in done.lines if ": " in line)
        missing = {"Author", "Email", "Subject", "Date"} - fields.keys()
        if done.status != 0 or missing:
            lacks = f" (no {', '.join(sorted(missing))})" if missing else ""
            raise UsageError(f"is no patch mail{lacks}", where=str(path))
        text = body.read_text(encoding="utf-8").strip("\n")
    return Message(
        Identity(name=fields["Author"], email=fields["Email"]),
        fields["Date"],
        # -b keeps every bracket but [PATCH] itself: vLLM's titles start with some.
        fields["Subject"].removeprefix("[PATCH] "),
        text,
    )


def metadata_block(entry: PatchEntry, upstream: Upstream) -> str:
    """The lines below ``---``: base, targets, upstream status, when to remove it."""
    status = entry.upstream
    lines = [f"Base: {upstream.tag} {upstream.commit}"]
    if entry.requires:
        lines.append(f"Requires: {', '.join(entry.requires)}")
    lines += [f"Target: {t.path} {t.before}..{t.after}" for t in entry.targets]
    lines += _wrapped(f"Upstream-Status: {status.state.value} ({status.note})")
    lines += [f"Link: {link}" for link in status.links]
    lines += _wrapped(f"Remove-when: {entry.remove_when}")
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, 88, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
