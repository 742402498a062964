# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.models.base import load
from harness.models.series import Series
from harness.paths import Project
from harness.workflows.linting import lint_companions, lint_releases


@pytest.fixture
def patches(tmp_path: Path, project: Project) -> Path:
    """A copy of this project's patches."""
    return Path(shutil.copytree(project.patches, tmp_path / "patches"))


def problems(patches: Path) -> list[str]:
    series = load(patches / "series.yaml", Series)
    found = lint_companions(patches, series) + lint_releases(patches)
    return [str(problem) for problem in found]


def test_what_this_project_has_is_clean(project: Project) -> None:
    assert problems(project.patches) == []


def test_folders_that_are_not_there_are_not_missed(patches: Path) -> None:
    for folder in [patches / "rules", patches / "claims", *patches.glob("v*")]:
        shutil.rmtree(folder)
    assert problems(patches) == []


def drop_rules(patches: Path) -> None:
    (patches / "rules" / "0002.yaml").unlink()


def orphan(patches: Path) -> None:
    shutil.copy(patches / "claims" / "0001.yaml", patches / "claims" / "0009.yaml")


def of_another(patches: Path) -> None:
    shutil.copy(patches / "claims" / "0001.yaml", patches / "claims" / "0002.yaml")


def misspelt(patches: Path) -> None:
    file = patches / "rules" / "0003.yaml"
    file.write_text(file.read_text().replace("targets:", "targts:", 1))


def no_rule(patches: Path) -> None:
    file = patches / "rules" / "0003.yaml"
    text = file.read_text()
    file.write_text(text.replace("pattern:", "patern:", 1).replace("kind:", "knd:", 1))


def other_target(patches: Path) -> None:
    file = patches / "rules" / "0004.yaml"
    file.write_text(file.read_text().replace("deepseek_v4/xpu/", "deepseek_v4/yyy/"))


def release(patches: Path) -> Path:
    folder = patches / "v9.9.9"
    folder.mkdir()
    (folder / "series.yaml").write_text("base: v9.9.9\npatches: []\n")
    return folder


def stray(patches: Path) -> None:
    (release(patches) / "0009-stray.patch").write_text("x")


def misnamed(patches: Path) -> None:
    release(patches).rename(patches / "v9.9.8")


def unreadable(patches: Path) -> None:
    (release(patches) / "series.yaml").write_text("base: v9.9.9\n")


def lost(patches: Path) -> None:
    folder = release(patches)
    text = (patches / "series.yaml").read_text()
    (folder / "series.yaml").write_text(text.replace("base: v0.26.0", "base: v9.9.9"))


@pytest.mark.parametrize(
    ("spoil", "file", "text"),
    [
        (drop_rules, "rules/0002.yaml", "does not exist: 0002-"),
        (orphan, "claims/0009.yaml", "belongs to no patch of series.yaml"),
        (of_another, "claims/0002.yaml", "is about 0001"),
        (misspelt, "rules/0003.yaml", "targ"),
        (no_rule, "rules/0003.yaml", "rule"),
        (other_target, "rules/0004.yaml", "has rules for vllm/models/deepseek_v4/yyy"),
        (stray, "v9.9.9/0009-stray.patch", "is not listed in series.yaml"),
        (misnamed, "v9.9.8/series.yaml", "base is v9.9.9, not v9.9.8"),
        (unreadable, "v9.9.9/series.yaml", "patches: Field required"),
        (lost, "v9.9.9/series.yaml", "0001-"),
    ],
)
def test_each_problem_is_named_by_its_file(
    patches: Path, spoil: Callable[[Path], None], file: str, text: str
) -> None:
    spoil(patches)
    first = problems(patches)[0]
    assert first.startswith(f"{file}:1: ")
    assert text in first
