# SPDX-License-Identifier: Apache-2.0
"""Fixtures named as things."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.paths import CACHE_VARIABLE, Project, default_root
from tests.support.toy import Toy, build


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


@pytest.fixture
def toy(tmp_path: Path, own_cache: Path) -> Toy:
    """A toy upstream with a series of two patches, applied."""
    return build(tmp_path)


@pytest.fixture
def pinned_project(tmp_path: Path, project: Project) -> Project:
    """A copy of this project's data files, for applying the real series to."""
    copy = Project(tmp_path / "pinned")
    shutil.copytree(project.configs, copy.configs)
    shutil.copytree(project.patches, copy.patches)
    return copy
