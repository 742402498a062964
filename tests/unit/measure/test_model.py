# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.measure import model
from harness.models.profile import HubModel, LocalModel
from harness.paths import Project
from harness.runtime.environment import Environment

NONE = Environment("none", "0", Path("/nonexistent"), "3", Path("/nonexistent"), {})
"""An environment that nothing is run in."""


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    source = LocalModel(kind="local", path="models/x")
    with pytest.raises(UsageError, match="no model in this folder"):
        model.ensure(Project(tmp_path), source, NONE)


def test_a_hub_model_is_served_at_its_revision(tmp_path: Path) -> None:
    source = HubModel(kind="hub", id="a/b", revision="0" * 40)
    ready = model.ensure(Project(tmp_path), source, NONE)
    assert ready.location == "a/b"
    assert ready.server_arguments == ["--revision", "0" * 40]


def test_the_tokenizer_of_a_hub_model_is_part_of_it(tmp_path: Path) -> None:
    plain = HubModel(kind="hub", id="a/b", revision="0" * 40)
    other = plain.model_copy(update={"tokenizer_mode": "slow"})
    ready = model.ensure(Project(tmp_path), other, NONE)
    assert ready.server_arguments[2:] == ["--tokenizer-mode", "slow"]
    assert ready.digest != model.ensure(Project(tmp_path), plain, NONE).digest


def test_a_hub_model_without_a_revision_is_not_served(tmp_path: Path) -> None:
    source = HubModel(kind="hub", id="a/b")
    with pytest.raises(UsageError, match="a/b: no revision is recorded"):
        model.ensure(Project(tmp_path), source, NONE)
