# SPDX-License-Identifier: Apache-2.0
"""What is built on the spot in the measured environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.measure import model
from harness.models.base import load
from harness.models.profile import Profile, SeededModel
from harness.paths import CACHE_VARIABLE, Project, default_root
from harness.runtime import environment as environments

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


def test_a_seed_gives_the_same_bytes_in_every_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(default_root())
    profile = load(project.configs / "profiles" / "cpu.yaml", Profile)
    environment = environments.ensure(project, profile.environment)
    source = SeededModel(kind="seeded", seed=7)
    first = model.ensure(project, source, environment)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    again = model.ensure(project, source, environment)
    assert again.location != first.location
    assert again.sha256 == first.sha256
    other = model.ensure(project, SeededModel(kind="seeded", seed=8), environment)
    name = "model.safetensors"
    assert other.sha256[name] != first.sha256[name]
