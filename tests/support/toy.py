# SPDX-License-Identifier: Apache-2.0
"""A toy upstream with a toy series: real git repositories, a few lines each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import git as gitpython

from harness.files import blob_id
from harness.git import Git
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.series import Series
from harness.paths import Project
from harness.series.checkout import Checkout, apply, require_state
from harness.series.readme import write_readme
from harness.series.refresh import Refreshed, refresh

TAG = "v1.2.3"
ALPHA, BETA = "vllm/alpha.py", "vllm/beta.py"
FILES = {
    ALPHA: "".join(f"alpha_{n} = {n}\n" for n in range(20)),
    BETA: "".join(f"beta_{n} = {n}\n" for n in range(20)),
    "README.md": "toy\n",
}
MESSAGE = (
    "[Bugfix][Core] {title}\n\nPurpose: to be tried.\n\nTest Plan: run the tests.\n\n"
    "Test Result: they pass. Ünïcödé stays.\n"
)


@dataclass
class Toy:
    """A project whose upstream is a toy repository on disk."""

    project: Project
    clone: Path
    commit: str

    @property
    def upstream(self) -> Upstream:
        return load(self.project.configs / "upstream.yaml", Upstream)

    @property
    def series(self) -> Series:
        return load(self.project.patches / "series.yaml", Series)

    @property
    def checkout(self) -> Path:
        return self.project.checkout

    def apply(self, *, source: str | None = None, discard: bool = False) -> Checkout:
        return apply(
            self.project,
            self.upstream,
            self.series,
            source=source or str(self.clone),
            discard=discard,
            say=lambda line: None,
        )

    def refresh(self, *, drop: bool = False) -> Refreshed:
        state = require_state(self.project)
        done = refresh(self.project, self.upstream, self.series, state, drop=drop)
        write_readme(self.project, self.upstream, self.series)
        self.apply(discard=True)
        return done

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.checkout / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def commit_all(self, title: str, *, amend: bool = False) -> None:
        git = Git(
            self.checkout.resolve(),
            {"user.name": "Some One", "user.email": "some@one.org"},
        )
        message = MESSAGE.format(title=title)
        git.run("commit", "-qam", message, *(["--amend"] if amend else []))

    def snapshot(self) -> dict[str, bytes]:
        """The bytes of every file in patches/."""
        return {p.name: p.read_bytes() for p in sorted(self.project.patches.iterdir())}


def build(root: Path) -> Toy:
    """Make the toy: an upstream clone and a project with two applied patches."""
    clone = root / "clone"
    repository = gitpython.Repo.init(clone)
    for name, text in FILES.items():
        file = clone / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    repository.index.add(list(FILES))
    actor = gitpython.Actor("Up", "up@stream.org")
    commit = repository.index.commit("upstream", author=actor, committer=actor)
    repository.create_tag(TAG)
    project = Project(root / "project")
    project.configs.mkdir(parents=True)
    project.patches.mkdir()
    targets = "".join(
        f"  {name}: {blob_id(FILES[name].encode())}\n" for name in (ALPHA, BETA)
    )
    (project.configs / "upstream.yaml").write_text(
        "project: toy\n"
        f"repository: {clone}\ntag: {TAG}\ncommit: {commit.hexsha}\n"
        f"wheel_commit: {commit.hexsha}\n"
        f"sdist: {{filename: toy-1.2.3.tar.gz, sha256: '{'0' * 64}', generated: []}}\n"
        "author: {name: Toy Series, email: toy@series.invalid}\n"
        f"targets:\n{targets}"
    )
    (project.patches / "series.yaml").write_text(f"base: {TAG}\npatches: []\n")
    toy = Toy(project, clone, commit.hexsha)
    toy.apply()
    toy.edit(ALPHA, "alpha_5 = 5", "alpha_5 = 55  # ä")
    toy.commit_all("Change alpha")
    toy.edit(BETA, "beta_10 = 10\n", "")
    toy.commit_all("Drop a beta")
    toy.refresh()
    text = (project.patches / "series.yaml").read_text()
    described = text.replace("Describe here, for the reviewer,", "A toy that shows")
    (project.patches / "series.yaml").write_text(described)
    toy.refresh()
    return toy
