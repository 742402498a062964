# SPDX-License-Identifier: Apache-2.0
"""Clean worktrees of the states that are measured, side by side."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.errors import InfrastructureError
from harness.files import locked
from harness.git import Git


def measured_worktree(repository: Path, commit: str, where: Path) -> Path:
    """A worktree of ``repository`` at ``commit`` in ``where/<commit>``.

    An existing one is reused when it is whole and unchanged, else made anew.

    Raises:
        InfrastructureError: The worktree can't be made, or is not clean afterwards.
    """
    path = where / commit[:16]
    with locked(where / ".lock"):
        if _is_clean(path, commit):
            return path
        shutil.rmtree(path, ignore_errors=True)
        git = Git(repository)
        git.run("worktree", "prune")
        git.run("worktree", "add", "-q", "--force", "--detach", str(path), commit)
        if not _is_clean(path, commit):
            raise InfrastructureError(
                "the fresh worktree is not clean", where=str(path)
            )
    return path


def _is_clean(path: Path, commit: str) -> bool:
    if not (path / ".git").exists():
        return False
    git = Git(path)
    head = git.run("rev-parse", "--verify", "-q", "HEAD", check=False)
    if head.status != 0 or head.text != commit:
        return False
    changes = git.run("status", "--porcelain", "--untracked-files=all", check=False)
    return changes.status == 0 and not changes.stdout.strip()
