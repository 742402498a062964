# SPDX-License-Identifier: Apache-2.0
"""Fixtures named as things."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from harness.git import Git
from harness.paths import CACHE_VARIABLE, Project, default_root
from tests.support.toy import Toy, build

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So starts a shell what it runs in the background; tests send Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def project() -> Project:
    """This checkout itself."""
    return Project(default_root())


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, for tests that fill one."""
    cache = tmp_path / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    return cache


@pytest.fixture(scope="session")
def toy_template(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The toy as every test finds it; built once."""
    root = tmp_path_factory.mktemp("toy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(root / "cache"))
        made = build(root)
    for repository in (made.checkout.resolve(), *(root / "cache").glob("*/*.git")):
        # One file instead of many: it is copied and removed again for every test.
        Git(repository).run("repack", "-adq")
    return made


@pytest.fixture
def toy(tmp_path: Path, own_cache: Path, toy_template: Toy) -> Toy:
    """A toy upstream with a series of two patches, applied."""
    root = toy_template.project.root
    shutil.copytree(root.parent / "cache", own_cache)
    shutil.copytree(root, tmp_path / "project", symlinks=True)
    return Toy(Project(tmp_path / "project"), toy_template.clone, toy_template.commit)


@pytest.fixture
def pinned_project(tmp_path: Path, project: Project) -> Project:
    """A copy of this project's data files, for applying the real series to."""
    copy = Project(tmp_path / "pinned")
    shutil.copytree(project.configs, copy.configs)
    shutil.copytree(project.patches, copy.patches)
    return copy
