# SPDX-License-Identifier: Apache-2.0
"""Patches to commits, without a worktree: from commit ids to commit ids."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import PatchError, UsageError
from harness.git import Git
from harness.models.series import PatchEntry
from harness.series.export import commit_tree
from harness.series.mail import read_message
from harness.upstream.source import blob_at


@dataclass(frozen=True)
class Applied:
    """A patch and the commit it became."""

    entry: PatchEntry
    commit: str


def stack(
    git: Git, base: str, entries: Sequence[PatchEntry], folder: Path
) -> tuple[Applied, ...]:
    """Commit each patch on the one before, beginning at ``base``.

    Every target's blob is compared, before and after, with the one recorded in the
    series: that leaves no room for an offset, for fuzz or for another place.

    Args:
        git: The repository that holds ``base``.
        entries: The patches, in order; any subset of the series.
        folder: Where the patch files are.

    Raises:
        UsageError: A patch file is missing or no patch mail.
        PatchError: A patch does not apply, or gives another file than recorded.
    """
    applied: list[Applied] = []
    parent = base
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        git.run("read-tree", base, env=index)
        for entry in entries:
            parent = _commit(git, parent, entry, folder / entry.file, index)
            applied.append(Applied(entry, parent))
    return tuple(applied)


def _commit(
    git: Git, parent: str, entry: PatchEntry, path: Path, index: dict[str, str]
) -> str:
    if not path.is_file():
        raise UsageError(
            "listed in series.yaml, but there is no such file", where=str(path)
        )
    message = read_message(git, path)
    _compare(git, parent, entry, "before")
    done = git.run(
        "apply", "-v", "--cached", str(path.resolve()), env=index, check=False
    )
    if done.status != 0:
        reasons = [
            line.removeprefix("error: ")
            for line in done.stderr.splitlines()
            if line.startswith("error: ")
        ]
        raise PatchError(
            f"does not apply: {'; '.join(reasons) or done.stderr}", where=entry.file
        )
    moved = [line for line in done.stderr.splitlines() if "succeeded at" in line]
    if moved:
        raise PatchError(
            f"not at its place: {moved[0].strip().rstrip('.')}", where=entry.file
        )
    tree = git.run("write-tree", env=index).text
    commit = commit_tree(git, tree, parent, message.author, message.date, message.text)
    _compare(git, commit, entry, "after")
    return commit


def _compare(git: Git, commit: str, entry: PatchEntry, when: str) -> None:
    for target in entry.targets:
        expected = target.before if when == "before" else target.after
        found = blob_at(git, commit, target.path)
        if found != expected:
            raise PatchError(
                f"{target.path} is {found or 'missing'} {when} the patch, "
                f"series.yaml says {expected}",
                where=entry.file,
                fix="after editing commits in build/vllm run `make refresh`",
            )
