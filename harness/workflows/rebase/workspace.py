# SPDX-License-Identifier: Apache-2.0
"""The repository in which a rebase happens: ``build/rebase/<tag>``.

It borrows the objects of the two source repositories, so it costs nothing until a
conflict needs a worktree.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compat.alignment import Lines
from harness.errors import UsageError
from harness.files import write_atomic
from harness.git import Git
from harness.models.base import load
from harness.models.rebase import RebaseState
from harness.series.export import commit_tree
from harness.series.mail import Message
from harness.upstream.source import SourceRepository

_STATE = "harness-rebase.json"


@dataclass(frozen=True)
class Workspace:
    """The work repository of one rebase."""

    path: Path

    @property
    def git(self) -> Git:
        return Git(self.path)

    @property
    def state(self) -> RebaseState | None:
        """The rebase under way; None when there is none."""
        file = self.path / ".git" / _STATE
        return load(file, RebaseState) if file.exists() else None

    def keep(self, state: RebaseState) -> None:
        write_atomic(
            self.path / ".git" / _STATE, state.model_dump_json(indent=2) + "\n"
        )

    def create(self, sources: Sequence[SourceRepository]) -> None:
        """Begin anew, with the objects of ``sources``."""
        self.remove()
        self.path.mkdir(parents=True)
        self.git.run("init", "-q", "--template=")
        objects = "".join(f"{source.path}/objects\n" for source in sources)
        info = self.path / ".git" / "objects" / "info"
        info.mkdir(exist_ok=True)
        (info / "alternates").write_text(objects)
        shallow = [source.path / "shallow" for source in sources]
        cut = {
            line for f in shallow if f.exists() for line in f.read_text().splitlines()
        }
        if cut:
            lines = "".join(f"{line}\n" for line in sorted(cut))
            (self.path / ".git" / "shallow").write_text(lines)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def commit(
        self, parent: str, writes: Mapping[str, Lines | None], message: Message
    ) -> str:
        """A commit on ``parent`` with these files written (None: removed)."""
        git = self.git
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            git.run("read-tree", parent, env=index)
            for path, lines in writes.items():
                if lines is None:
                    git.run("rm", "-q", "--cached", "--", path, env=index)
                    continue
                content = Path(folder) / "content"
                content.write_bytes(b"".join(lines))
                oid = git.text("hash-object", "-w", "--no-filters", str(content))
                entry = f"{self._mode(parent, path)},{oid},{path}"
                git.run("update-index", "--add", "--cacheinfo", entry, env=index)
            tree = git.run("write-tree", env=index).text
        return commit_tree(
            git, tree, parent, message.author, message.date, message.text
        )

    def show_conflict(
        self, head: str, branch: str, files: Mapping[str, tuple[Lines, Lines, Lines]]
    ) -> None:
        """Check out ``head`` and leave the conflicts in the files.

        Args:
            files: Path to (the release's, the patch's before, the patch's after).
        """
        git = self.git
        git.run("checkout", "-q", "--force", "-B", branch, head)
        for path, versions in files.items():
            with tempfile.TemporaryDirectory() as folder:
                names = [Path(folder) / name for name in ("theirs", "before", "after")]
                for name, lines in zip(names, versions, strict=True):
                    name.write_bytes(b"".join(lines))
                merged = git.run(
                    "merge-file", "-p", "--diff3",
                    "-L", "release", "-L", "pin", "-L", "patch",
                    *map(str, names), check=False,
                )  # fmt: skip
            (self.path / path).write_bytes(merged.stdout)

    def resolved(self, parent: str, message: Message) -> str | None:
        """Commit what a person made of the worktree; None when nothing is left.

        Raises:
            UsageError: A conflict marker is still there.
        """
        git = self.git
        changed = git.text("diff", "--name-only", "HEAD").splitlines()
        for path in changed:
            file = self.path / path
            if file.exists() and (line := _marker(file.read_bytes())):
                raise UsageError(
                    "a conflict marker is still there", where=f"{file}:{line}"
                )
        if not changed:
            return None
        git.run("add", "-u")
        tree = git.text("write-tree")
        return commit_tree(
            git, tree, parent, message.author, message.date, message.text
        )

    def _mode(self, commit: str, path: str) -> str:
        entry = self.git.text("ls-tree", commit, "--", path)
        return entry.split()[0] if entry else "100644"


def _marker(data: bytes) -> int | None:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.startswith((b"<<<<<<< ", b">>>>>>> ", b"||||||| ")):
            return number
    return None
