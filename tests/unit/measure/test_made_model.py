# SPDX-License-Identifier: Apache-2.0
"""A model that a builder writes: once, checked, and whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.errors import InfrastructureError
from harness.measure import made_model, model
from harness.models.profile import MadeModel
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
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A builder in a repository of its own, and an empty cache."""
    path = tmp_path / "root" / "harness" / "inside" / "toy" / "builder.py"
    path.parent.mkdir(parents=True)
    path.write_text(BUILDER)
    monkeypatch.setattr(made_model, "default_root", lambda: tmp_path / "root")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return path


def ensure(tmp_path: Path, seed: int) -> model.ReadyModel:
    source = MadeModel(kind="made", builder="harness.inside.toy.builder", seed=seed)
    environment = Environment(
        "x", "0", Path(sys.executable), "3", tmp_path, {"torch": "2"}
    )
    return model.ensure(Project(tmp_path), source, environment)


def test_it_is_built_once(builder: Path, tmp_path: Path) -> None:
    first = ensure(tmp_path, 1)
    assert set(first.sha256) == {"config.json", "model.safetensors"}
    stamp = (Path(first.location) / "config.json").stat().st_mtime_ns
    again = ensure(tmp_path, 1)
    assert again == first
    assert (Path(again.location) / "config.json").stat().st_mtime_ns == stamp
    assert ensure(tmp_path, 2).digest != first.digest


def test_another_builder_makes_another_model(builder: Path, tmp_path: Path) -> None:
    first = ensure(tmp_path, 1)
    builder.with_name("tokens.py").write_text("WORDS = ()")
    assert ensure(tmp_path, 1).location != first.location


def test_a_changed_file_is_refused(builder: Path, tmp_path: Path) -> None:
    built = ensure(tmp_path, 1)
    (Path(built.location) / "model.safetensors").write_text("other")
    with pytest.raises(InfrastructureError, match="differs from what was built"):
        ensure(tmp_path, 1)


def test_a_failed_build_leaves_nothing(builder: Path, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"building the model.*no luck"):
        ensure(tmp_path, 13)
    left = [p for p in (tmp_path / "cache" / "models").iterdir() if p.is_dir()]
    assert not left


@pytest.mark.parametrize("name", ["os", "harness.measure.model", "harness.inside.a b"])
def test_a_builder_is_a_module_of_measured_code(name: str) -> None:
    with pytest.raises(ValidationError):
        MadeModel(kind="made", builder=name, seed=1)
