# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from harness.errors import UsageError
from harness.models.base import load
from harness.models.pin import Upstream
from harness.paths import Project, default_root
from harness.readme import markers, shown
from harness.report.profiles import (
    PART,
    load_profiles,
    show_in_readme,
    table,
)

PROJECT = Project(default_root())
BEGIN, END = markers(PART)


def test_readme_lists_every_profile_as_it_is() -> None:
    tag = load(PROJECT.pin, Upstream).tag
    wanted = table(load_profiles(PROJECT), PROJECT.results, tag)
    assert shown(PROJECT.root / "README.md", PART) == wanted, (
        "run `harness profile table`"
    )


def test_what_was_never_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "results" / "v1" / "cpu").mkdir(parents=True)
    (tmp_path / "results" / "v1" / "cpu" / "report.md").write_text("x")
    rows = table(load_profiles(PROJECT), tmp_path / "results", "v1").splitlines()
    ran = next(row for row in rows if row.startswith("| `cpu` "))
    assert ran.endswith("| [report](results/v1/cpu/report.md) |")
    other = next(row for row in rows if row.startswith("| `glm-5.2` "))
    assert other.endswith("| not run |")


def copied(tmp_path: Path, readme: str) -> Project:
    folder = tmp_path / "configs" / "profiles"
    folder.mkdir(parents=True)
    source = PROJECT.configs / "profiles" / "cpu.yaml"
    (folder / "cpu.yaml").write_text(source.read_text())
    (tmp_path / "README.md").write_text(readme)
    return Project(tmp_path)


def test_only_the_table_is_written_anew(tmp_path: Path) -> None:
    project = copied(tmp_path, f"head\n{BEGIN}\nold\n{END}\ntail\n")
    assert show_in_readme(project, "v1")
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"head\n{BEGIN}\n| profile |")
    assert text.endswith(f"| not run |\n{END}\ntail\n")
    assert "old" not in text


def test_a_missing_marker_is_named(tmp_path: Path) -> None:
    project = copied(tmp_path, f"head\n{BEGIN}\n")
    with pytest.raises(UsageError, match=r"needs .*begin.* before .*end"):
        show_in_readme(project, "v1")


def test_a_profile_under_another_name_is_refused(tmp_path: Path) -> None:
    project = copied(tmp_path, "")
    folder = project.configs / "profiles"
    (folder / "cpu.yaml").rename(folder / "gpu.yaml")
    with pytest.raises(UsageError, match="holds the profile cpu"):
        load_profiles(project)


def test_the_gpu_workflow_offers_a_profile_that_exists() -> None:
    workflow = PROJECT.root / ".github" / "workflows" / "gpu.yml"
    inputs = YAML(typ="safe").load(workflow)["on"]["workflow_dispatch"]["inputs"]
    names = {profile.name for profile in load_profiles(PROJECT) if profile.machines}
    assert inputs["profile"]["default"] in names
