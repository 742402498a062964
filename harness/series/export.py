# SPDX-License-Identifier: Apache-2.0
"""From a commit to the one canonical patch file for it."""

from __future__ import annotations

import re

from harness.errors import UsageError
from harness.git import Git
from harness.models.pin import Identity, Upstream
from harness.models.series import PatchEntry, Target
from harness.series.mail import SEPARATOR, metadata_block

_FORMAT = (
    "--zero-commit",
    "--no-signature",
    "--full-index",
    "--stat=100",
    "--stat-graph-width=20",
    "--no-numbered",
    "--no-attach",
    "--no-encode-email-headers",
    "--no-renames",
    "--no-thread",
    "--no-base",
    "--no-notes",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--diff-algorithm=myers",
    "--unified=3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--subject-prefix=PATCH",
    "--stdout",
)


def export(git: Git, commit: str, entry: PatchEntry, upstream: Upstream) -> bytes:
    """The canonical patch file of ``commit``: equal bytes on every machine."""
    raw = git.run("format-patch", *_FORMAT, "-1", commit).stdout
    head, found, rest = raw.partition(SEPARATOR)
    if not found:
        raise UsageError("changes nothing", where=f"commit {commit}")
    block = metadata_block(entry, upstream).encode()
    return head + found + block + b"\n" + rest.rstrip(b"\n") + b"\n"


def canonical_commit(
    git: Git, commit: str, parent: str, author: Identity, message: str | None = None
) -> str:
    """``commit``'s tree and message on ``parent``, by the series' one author.

    The author date stays, and the committer is the author: two machines agree on
    the id, and an unchanged patch keeps its bytes.
    """
    date = git.text("show", "-s", "--format=%ad", "--date=raw", commit)
    text = message or git.text("show", "-s", "--format=%B", commit).strip("\n") + "\n"
    return commit_tree(git, f"{commit}^{{tree}}", parent, author, date, text)


def commit_tree(
    git: Git, tree: str, parent: str, author: Identity, date: str, message: str
) -> str:
    """Write a commit whose id depends on the arguments alone."""
    env = {}
    for role in ("AUTHOR", "COMMITTER"):
        env[f"GIT_{role}_NAME"] = author.name
        env[f"GIT_{role}_EMAIL"] = author.email
        env[f"GIT_{role}_DATE"] = date
    return git.run(
        "commit-tree", tree, "-p", parent, "-m", message.rstrip("\n"), env=env
    ).text


def changed_targets(git: Git, commit: str) -> tuple[Target, ...]:
    """What ``commit`` changes, as the series file records it.

    Raises:
        UsageError: It adds, deletes or retypes a file; a patch here only edits.
    """
    targets = []
    lines = git.text(
        "diff-tree", "-r", "--no-renames", "--full-index", "--no-commit-id", commit
    ).splitlines()
    for line in lines:
        meta, path = line.split("\t", 1)
        old_mode, new_mode, before, after, kind = meta.lstrip(":").split(" ")
        if kind != "M" or old_mode != new_mode:
            raise UsageError(
                f"{path}: change of kind {kind} ({old_mode} to {new_mode})",
                where=f"commit {commit[:12]}",
                fix="a patch of this series may only edit existing files",
            )
        targets.append(Target(path=path, before=before, after=after))
    return tuple(targets)


def file_name(number: str, subject: str) -> str:
    """A patch file's name from its number and title, as git would choose it."""
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", subject).strip("-.")[:52].rstrip("-.")
    return f"{number}-{slug}.patch"
