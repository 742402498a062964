# SPDX-License-Identifier: Apache-2.0
"""Write the series anew from the commits in build/vllm."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from harness.errors import UsageError
from harness.files import write_atomic
from harness.git import Git
from harness.models.base import load, validate
from harness.models.pin import Upstream
from harness.models.series import (
    PatchEntry,
    Series,
    Target,
    UpstreamState,
    UpstreamStatus,
)
from harness.models.state import CheckoutState
from harness.paths import Project
from harness.series.checkout import local_edits
from harness.series.export import (
    canonical_commit,
    changed_targets,
    export,
    file_name,
)
from harness.series.mail import read_message

SERIES_FILE = "series.yaml"
UNDESCRIBED = "Describe here, for the reviewer, what this patch changes and why."


@dataclass(frozen=True)
class Refreshed:
    """What a refresh did to the files in patches/."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    added: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class _Commit:
    id: str
    subject: str
    targets: tuple[Target, ...]


def refresh(
    project: Project,
    upstream: Upstream,
    series: Series,
    state: CheckoutState,
    *,
    drop: bool = False,
) -> Refreshed:
    """Export every commit above the pin to its patch file and update series.yaml.

    A commit belongs to the entry that changes the same files, preferring one with its
    title, else to the one with its title. Without an entry it becomes a new one.

    Args:
        drop: Take entries that have no commit any more out of the series.

    Raises:
        UsageError: Uncommitted edits, a merge, a lost base, or an entry whose commit
            is gone (without ``drop``). Nothing is written then.
    """
    edits = local_edits(project)
    if edits:
        raise UsageError(
            f"has uncommitted edits: {', '.join(edit[3:] for edit in edits)}",
            where="build/vllm",
            fix="commit them (or `git commit --amend`) first",
        )
    git = Git(project.checkout.resolve())
    commits = _commits(git, state.base)
    entries, gone = _match(commits, series, _titles(git, project.patches, series))
    if gone and not drop:
        raise UsageError(
            f"no commit for {', '.join(e.number for e in gone)}",
            where="build/vllm",
            fix="restore it, or take it out with `make refresh ARGS=--drop`",
        )
    files: dict[str, bytes] = {}
    parent = state.base
    for commit, entry in zip(commits, entries, strict=True):
        parent = canonical_commit(git, commit.id, parent, upstream.author)
        files[entry.file] = export(git, parent, entry, upstream)
    return _write(project.patches, series, entries, gone, files)


def _commits(git: Git, base: str) -> list[_Commit]:
    if git.run("merge-base", "--is-ancestor", base, "HEAD", check=False).status:
        raise UsageError(
            f"the pin {base[:12]} is not below HEAD", where="build/vllm",
            fix="rebase your commits onto the pin",
        )  # fmt: skip
    ids = git.text("rev-list", "--reverse", f"{base}..HEAD").splitlines()
    merges = git.text("rev-list", "--merges", f"{base}..HEAD").split()
    if merges:
        raise UsageError(
            "is a merge; a series is a line", where=f"commit {merges[0][:12]}"
        )
    found = []
    for commit in ids:
        subject = git.text("show", "-s", "--format=%s", commit)
        found.append(_Commit(commit, subject, changed_targets(git, commit)))
    return found


def _titles(git: Git, folder: Path, series: Series) -> dict[str, str]:
    """Each entry's title, by its number, as its file has it.

    A file that is gone or spoilt has none: it is written anew.
    """
    titles = {}
    for entry in series.patches:
        path = folder / entry.file
        with contextlib.suppress(UsageError):
            if path.is_file():
                titles[entry.number] = read_message(git, path).subject
    return titles


def _match(
    commits: Sequence[_Commit], series: Series, titles: Mapping[str, str]
) -> tuple[list[PatchEntry], list[PatchEntry]]:
    """The entry of each commit, brought up to date, and the entries left over."""

    def same_title(commit: _Commit, entry: PatchEntry) -> bool:
        return titles.get(entry.number) == commit.subject

    def same_both(commit: _Commit, entry: PatchEntry) -> bool:
        return _same_files(commit, entry) and same_title(commit, entry)

    free = list(series.patches)
    chosen: dict[str, PatchEntry] = {}
    for same in (same_both, _same_files, same_title):
        for commit in commits:
            if commit.id in chosen:
                continue
            hit = next((entry for entry in free if same(commit, entry)), None)
            if hit:
                chosen[commit.id] = hit
                free.remove(hit)
    last = max((int(entry.number) for entry in series.patches), default=0)
    entries: list[PatchEntry] = []
    for commit in commits:
        entry = chosen.get(commit.id)
        if entry is None:
            last += 1
            entry = _new_entry(f"{last:04d}", commit)
        entries.append(entry.model_copy(update={"targets": commit.targets}))
    plain = [entry.model_dump(mode="json") for entry in entries]
    validate(
        {"base": series.base, "patches": plain}, Series, where="commits in build/vllm"
    )
    return entries, free


def _same_files(commit: _Commit, entry: PatchEntry) -> bool:
    return {t.path for t in commit.targets} == {t.path for t in entry.targets}


def _new_entry(number: str, commit: _Commit) -> PatchEntry:
    return PatchEntry(
        number=number,
        file=file_name(number, commit.subject),
        summary=UNDESCRIBED,
        targets=commit.targets,
        upstream=UpstreamStatus(state=UpstreamState.PENDING, note="not submitted"),
        remove_when="upstream has this change",
    )


def _write(
    folder: Path,
    series: Series,
    entries: Sequence[PatchEntry],
    gone: Sequence[PatchEntry],
    files: dict[str, bytes],
) -> Refreshed:
    known = {entry.file for entry in series.patches}
    written, unchanged = [], []
    for name, data in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() == data:
            unchanged.append(name)
            continue
        write_atomic(path, data)
        written.append(name)
    _update_series_file(folder / SERIES_FILE, entries)
    for entry in gone:
        (folder / entry.file).unlink(missing_ok=True)
    added = tuple(name for name in files if name not in known)
    return Refreshed(
        tuple(written), tuple(unchanged), added, tuple(e.file for e in gone)
    )


def _update_series_file(path: Path, entries: Sequence[PatchEntry]) -> None:
    """Change targets and membership only; the file's comments and order stay."""
    yaml = YAML()
    yaml.width = 88
    yaml.indent(mapping=2, sequence=4, offset=2)
    document = yaml.load(path.read_text(encoding="utf-8"))
    known = {item["number"]: item for item in document["patches"]}
    items = []
    for entry in entries:
        plain = entry.model_dump(mode="json", exclude_defaults=True)
        item = known.get(entry.number)
        if item is None:
            item = plain
        elif plain["targets"] != [dict(target) for target in item["targets"]]:
            item["targets"] = plain["targets"]
        items.append(item)
    document["patches"][:] = items
    buffer = io.StringIO()
    yaml.dump(document, buffer)
    if buffer.getvalue() != path.read_text(encoding="utf-8"):
        write_atomic(path, buffer.getvalue())
    load(path, Series)
