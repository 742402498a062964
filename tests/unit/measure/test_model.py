# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.measure import model
from harness.models.profile import HubModel, LocalModel, SeededModel
from harness.paths import CACHE_VARIABLE, Project
from harness.runtime.environment import Environment

BUILDER = """
import pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
(out / "config.json").write_text("{}")
if sys.argv[-1] == "13": sys.exit("no luck")
(out / "model.safetensors").write_text("seed " + sys.argv[-1])
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Our own Python, with a stand-in for the builder and an empty cache."""
    builder = tmp_path / "builder.py"
    builder.write_text(BUILDER)
    monkeypatch.setattr(model, "_BUILDER", builder)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return Environment("x", "0", Path(sys.executable), "3", tmp_path, {"numpy": "2"})


def ensure(environment: Environment, seed: int, root: Path) -> model.ReadyModel:
    source = SeededModel(kind="seeded", seed=seed)
    return model.ensure(Project(root), source, environment)


def test_a_seeded_model_is_built_once(environment: Environment, tmp_path: Path) -> None:
    first = ensure(environment, 1, tmp_path)
    stamp = (Path(first.location) / "config.json").stat().st_mtime_ns
    again = ensure(environment, 1, tmp_path)
    assert again == first
    assert (Path(again.location) / "config.json").stat().st_mtime_ns == stamp
    assert ensure(environment, 2, tmp_path).digest != first.digest


def test_another_architecture_is_another_model(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ensure(environment, 1, tmp_path)
    other = tmp_path / "architecture.py"
    other.write_text("SETTINGS = {}")
    monkeypatch.setattr(model, "_ARCHITECTURE", other)
    assert ensure(environment, 1, tmp_path).location != first.location


def test_a_changed_file_is_refused(environment: Environment, tmp_path: Path) -> None:
    built = ensure(environment, 1, tmp_path)
    (Path(built.location) / "model.safetensors").write_text("other")
    with pytest.raises(InfrastructureError, match="differs from what was built"):
        ensure(environment, 1, tmp_path)


def test_a_failed_build_leaves_nothing(
    environment: Environment, tmp_path: Path
) -> None:
    with pytest.raises(InfrastructureError, match=r"building the tiny model.*no luck"):
        ensure(environment, 13, tmp_path)
    left = [p for p in (tmp_path / "cache" / "models").iterdir() if p.is_dir()]
    assert not left


def test_a_folder_without_a_model_is_refused(
    environment: Environment, tmp_path: Path
) -> None:
    source = LocalModel(kind="local", path="models/x")
    with pytest.raises(UsageError, match="no model in this folder"):
        model.ensure(Project(tmp_path), source, environment)


def test_a_hub_model_is_served_at_its_revision(
    environment: Environment, tmp_path: Path
) -> None:
    source = HubModel(kind="hub", id="a/b", revision="0" * 40)
    ready = model.ensure(Project(tmp_path), source, environment)
    assert ready.location == "a/b"
    assert ready.server_arguments == ["--revision", "0" * 40]


def test_the_tokenizer_of_a_hub_model_is_part_of_it(
    environment: Environment, tmp_path: Path
) -> None:
    plain = HubModel(kind="hub", id="a/b", revision="0" * 40)
    other = plain.model_copy(update={"tokenizer_mode": "slow"})
    ready = model.ensure(Project(tmp_path), other, environment)
    assert ready.server_arguments[2:] == ["--tokenizer-mode", "slow"]
    assert ready.digest != model.ensure(Project(tmp_path), plain, environment).digest


def test_a_hub_model_without_a_revision_is_not_served(
    environment: Environment, tmp_path: Path
) -> None:
    source = HubModel(kind="hub", id="a/b")
    with pytest.raises(UsageError, match="a/b: no revision is recorded"):
        model.ensure(Project(tmp_path), source, environment)
