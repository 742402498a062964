# SPDX-License-Identifier: Apache-2.0
"""Checking and installing the reference model's files, without training it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.files import sha256_file
from harness.models.base import load
from harness.models.profile import LocalModel, Profile
from harness.models.reference import MANIFEST, listed, read_checked
from harness.paths import Project
from harness.runtime.environment import Environment
from harness.workflows import reference_model


def write_folder(folder: Path, content: str = "weights") -> Path:
    (folder / "model").mkdir(parents=True)
    (folder / "model/model.safetensors").write_text(content)
    manifest = {
        "seed": 1,
        "steps": 2,
        "seconds": 3.0,
        "answer_end": 4,
        "made_with": {"torch": "2.11.0"},
        "files": {path: sha256_file(folder / path) for path in listed(folder)},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def fake_environment(tmp_path: Path, script: str) -> Environment:
    """An environment whose python is a shell script."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return Environment("fake", "0", python, "3.11", tmp_path, {"torch": "2.11.0"})


def test_a_whole_folder_is_accepted(tmp_path: Path) -> None:
    assert read_checked(write_folder(tmp_path / "m")).answer_end == 4


def test_changed_bytes_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model/model.safetensors").write_text("other")
    with pytest.raises(UsageError, match=r"model\.safetensors: has other bytes"):
        read_checked(folder)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model/model.safetensors").unlink()
    with pytest.raises(UsageError, match="is missing"):
        read_checked(folder)


def test_a_file_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model/extra.json").write_text("{}")
    with pytest.raises(UsageError, match=r"extra\.json: is not listed"):
        read_checked(folder)


def test_the_committed_model_is_whole(project: Project) -> None:
    manifest = read_checked(reference_model.committed(project))
    weights = reference_model.committed(project) / "model/model.safetensors"
    assert weights.stat().st_size < 6e6
    assert len(manifest.files) >= 8


def test_the_committed_problems_are_those_of_the_generator(
    project: Project, tmp_path: Path
) -> None:
    reference_model.write_problems(tmp_path)
    folder = reference_model.committed(project) / "problems"
    for name in ("train.jsonl", "test.jsonl"):
        assert (folder / name).read_text() == (tmp_path / name).read_text()


def test_profiles_end_an_answer_at_the_token_that_ends_it(project: Project) -> None:
    folder = reference_model.committed(project)
    ends = (read_checked(folder).answer_end,)
    served = f"{folder.relative_to(project.root).as_posix()}/model"
    stops = [
        cell.stop_token_ids
        for file in sorted((project.configs / "profiles").glob("*.yaml"))
        for profile in [load(file, Profile)]
        if isinstance(profile.model, LocalModel) and profile.model.path == served
        for setup in profile.servers
        for cell in setup.acceptance
        if cell.stop_token_ids
    ]
    assert stops
    assert set(stops) == {ends}


def test_no_test_problem_is_among_the_examples(tmp_path: Path) -> None:
    reference_model.write_problems(tmp_path)
    sides = [
        {json.loads(line)["question"] for line in (tmp_path / name).open()}
        for name in ("train.jsonl", "test.jsonl")
    ]
    assert [len(side) for side in sides] == [200, 500]
    assert not sides[0] & sides[1]


def test_installing_replaces_the_old_folder(tmp_path: Path) -> None:
    place = write_folder(tmp_path / "configs/reference-model", "old")
    made = write_folder(tmp_path / "made", "new")
    reference_model.install(made, place)
    assert (place / "model/model.safetensors").read_text() == "new"
    assert [p.name for p in place.parent.iterdir()] == ["reference-model"]


def test_a_spoilt_folder_is_not_installed(tmp_path: Path) -> None:
    place = write_folder(tmp_path / "configs/reference-model", "old")
    made = write_folder(tmp_path / "made", "new")
    (made / "model/model.safetensors").write_text("spoilt")
    with pytest.raises(UsageError):
        reference_model.install(made, place)
    assert (place / "model/model.safetensors").read_text() == "old"


def test_training_installs_what_the_program_wrote(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    script = """
echo step 1
mkdir -p "$4/model"; echo w > "$4/model/model.safetensors"
echo {} > "$4/training.jsonl"
echo '{"seed": 5, "steps": 6, "seconds": 7.5, "answer_end": 8}' > "$4/run.json"
"""
    said: list[str] = []
    manifest = reference_model.train(
        project, fake_environment(tmp_path, script), anew=False, progress=said.append
    )
    assert said == ["step 1"]
    assert (manifest.seed, manifest.steps, manifest.answer_end) == (5, 6, 8)
    assert read_checked(project.configs / "reference-model") == manifest


def test_a_failed_training_installs_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    environment = fake_environment(tmp_path, "echo out of memory; exit 9")
    with pytest.raises(InfrastructureError, match=r"status 9: out of memory"):
        reference_model.train(project, environment, anew=False, progress=print)
    assert not (project.configs / "reference-model").exists()


def test_an_interrupted_training_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    checkpoint = project.build / "reference-model/checkpoint.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("half")
    environment = fake_environment(tmp_path, "exit 9")
    for anew in (False, True):
        with pytest.raises(InfrastructureError):
            reference_model.train(project, environment, anew=anew, progress=print)
        assert checkpoint.exists() != anew
