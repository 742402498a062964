# SPDX-License-Identifier: Apache-2.0
"""What a patch of this series must look like; each problem by file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.git import Git
from harness.models.pin import Upstream
from harness.models.series import PatchEntry, Series
from harness.series.diff import FileDiff, parse_diff
from harness.series.mail import PatchMail, metadata_block, read_message, split
from harness.series.refresh import SERIES_FILE, UNDESCRIBED

_ZERO_FROM = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001"
_TITLE = re.compile(
    r"^(\[(Bugfix|CI/Build|Doc|Model|Frontend|Kernel|Core|Hardware|Misc|AMD|NVIDIA"
    r"|Intel|CPU|TPU)\])+ \S"
)
"""vLLM reviews only titles with these prefixes (docs/contributing/README.md)."""

_TITLE_LENGTH = 72
_SECTIONS = ("Purpose", "Test Plan", "Test Result")
"""The sections of vLLM's pull request template."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing to mend."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def lint_series(folder: Path, upstream: Upstream, series: Series) -> list[Problem]:
    """Problems of the files in ``folder`` that need no checkout to be seen."""
    found = list(_membership(folder, upstream, series))
    for entry in series.patches:
        path = folder / entry.file
        if path.is_file():
            found += lint_patch(path, entry, upstream)
    return sorted(found)


def lint_patch(path: Path, entry: PatchEntry, upstream: Upstream) -> list[Problem]:
    """Problems of one patch file."""
    raw = path.read_bytes()
    try:
        raw.decode("utf-8")
        mail = split(raw, where=entry.file)
        found = [*_bytes(raw), *_message(path, raw, mail, upstream)]
        found += _metadata(mail, entry, upstream)
        found += _diff(parse_diff(mail.diff, mail.diff_line), entry)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        found = [(line, "is not UTF-8")]
    except UsageError as error:
        found = [(1, error.what)]
    return [Problem(entry.file, line, text) for line, text in found]


_Found = tuple[int, str]


def _membership(folder: Path, upstream: Upstream, series: Series) -> Iterator[Problem]:
    listed = {entry.file for entry in series.patches}
    for path in sorted(folder.glob("*.patch")):
        if path.name not in listed:
            yield Problem(path.name, 1, f"is not listed in {SERIES_FILE}")
    if series.base != upstream.tag:
        text = f"base is {series.base}, the pin is {upstream.tag}"
        yield Problem(SERIES_FILE, 1, text)
    for entry in series.patches:
        if not (folder / entry.file).is_file():
            yield Problem(SERIES_FILE, 1, f"{entry.file} does not exist")
        if UNDESCRIBED in entry.summary:
            yield Problem(SERIES_FILE, 1, f"{entry.number} is not described")
    first = {path: steps[0] for path, steps in series.steps().items()}
    for path_ in sorted(first.keys() | upstream.targets.keys()):
        pinned, used = upstream.targets.get(path_), first.get(path_)
        if pinned != used:
            text = f"{path_}: the pin says {pinned}, the series starts from {used}"
            yield Problem(SERIES_FILE, 1, text)


def _bytes(raw: bytes) -> Iterator[_Found]:
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if b"\r" in line:
            yield number, "has a carriage return"
            break
    if not raw.startswith(_ZERO_FROM + b"\n"):
        yield 1, "does not begin with a zero From hash"
    if not raw.endswith(b"\n"):
        yield raw.count(b"\n") + 1, "has no line end at its end"


def _message(
    path: Path, raw: bytes, mail: PatchMail, upstream: Upstream
) -> Iterator[_Found]:
    message = read_message(Git(path.parent), path)
    if message.author != upstream.author:
        yield _line_of(raw, b"From: "), f"the author is not {upstream.author.name}"
    subject = _line_of(raw, b"Subject: ")
    if not re.search(rb"^Subject: \[PATCH\] ", mail.head, re.MULTILINE):
        yield subject, "the subject does not begin with a plain [PATCH]"
    if not _TITLE.match(message.subject):
        yield subject, "the title has none of the prefixes that vLLM reviews"
    if len(message.subject) > _TITLE_LENGTH:
        yield subject, f"the title is longer than {_TITLE_LENGTH} characters"
    for section in _SECTIONS:
        if not re.search(rf"^{section}: \S", message.body, re.MULTILINE):
            yield subject, f"the body has no section '{section}:'"
    if re.search(r"^Signed-off-by:", message.body, re.MULTILINE):
        line = _line_of(raw, b"Signed-off-by:")
        yield line, "a sign-off comes from a person, through `make submit`"


def _metadata(
    mail: PatchMail, entry: PatchEntry, upstream: Upstream
) -> Iterator[_Found]:
    expected = metadata_block(entry, upstream).encode() + b"\n"
    if not mail.notes.startswith(expected):
        line = mail.head.count(b"\n") + 3
        yield line, "the metadata block is not the one of the series (make refresh)"


def _diff(files: list[FileDiff], entry: PatchEntry) -> Iterator[_Found]:
    declared = {target.path: target for target in entry.targets}
    for file in files:
        target = declared.pop(file.new_path, None)
        if target is None:
            yield file.line, f"touches {file.new_path}, which is not declared"
        elif len(file.before) != 40 or len(file.after) != 40:
            yield file.index_line or file.line, "has no full-length index line"
        elif (file.before, file.after) != (target.before, target.after):
            yield file.index_line, "blob ids are not the ones of the series"
        if file.old_path != file.new_path:
            yield file.line, f"renames {file.old_path}"
        for line, text in file.extended:
            yield line, f"is not a plain edit: {text}"
        for line, _ in file.strays:
            yield line, "is part of no hunk"
        yield from _hunks(file)
    for path in declared:
        yield 1, f"does not touch {path}, which is declared"


def _hunks(file: FileDiff) -> Iterator[_Found]:
    if not file.hunks:
        yield file.line, "has no hunk"
    for hunk in file.hunks:
        problem = hunk.problem()
        if problem:
            yield hunk.line, problem
        elif max(hunk.leading_context, hunk.trailing_context) > 3:
            yield hunk.line, "has more than 3 lines of context"
        elif hunk.leading_context < 3 and hunk.old_start > 3:
            yield hunk.line, "has fewer than 3 lines of context before"


def _line_of(raw: bytes, start: bytes) -> int:
    position = raw.find(b"\n" + start)
    return raw[: position + 1].count(b"\n") + 1 if position >= 0 else 1
