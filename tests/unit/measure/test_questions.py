# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from harness import files
from harness.errors import UsageError
from harness.measure import questions
from harness.models.base import load
from harness.models.facts import Origin
from harness.models.questions import QuestionConfig
from harness.paths import CACHE_VARIABLE, DATA_VARIABLE, Project

Write = Callable[..., None]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_questions: Write
) -> Project:
    """A project whose public set is the three questions in data/gsm8k."""
    write_questions(tmp_path / "data" / "gsm8k")
    write_questions(tmp_path / "project" / "configs" / "own", 2)
    config = {
        "gsm8k": {"name": "gsm8k", "sha256": hashes(tmp_path / "data" / "gsm8k")},
        "hub": {"path": "a/b", "config": "main", "url": "http://hub/", "timeout": 1},
        "own": {
            "name": "our own",
            "sha256": hashes(tmp_path / "project/configs/own"),
        },
        "own_folder": "own",
    }
    path = tmp_path / "project" / "configs" / "questions.yaml"
    path.write_text(json.dumps(config))
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return Project(tmp_path / "project")


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network on which the hub does not answer."""

    def fail(*_: object, **__: object) -> None:
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "head", fail)


def hashes(folder: Path) -> dict[str, str]:
    return {p.name: files.sha256_file(p) for p in sorted(folder.iterdir())}


def test_the_local_folder_comes_first(project: Project) -> None:
    found = questions.find(project, "gsm8k")
    assert (found.source.name, found.source.origin) == ("gsm8k", Origin.FOLDER)
    assert found.source.test == 3
    assert found.rows("test.jsonl")[1].question == "test 1?"


def test_a_partial_download_is_refused(project: Project) -> None:
    path = project.data / "gsm8k" / "train.jsonl"
    path.write_text(path.read_text()[:-10])
    with pytest.raises(UsageError, match=r"train\.jsonl: sha256 is .*Fetch"):
        questions.find(project, "gsm8k")


def test_a_named_folder_without_the_set_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "elsewhere"))
    with pytest.raises(UsageError, match=f"no such folder.*{DATA_VARIABLE}"):
        questions.find(project, "gsm8k")


@pytest.mark.usefixtures("unreachable")
def test_the_last_resort_is_named_as_such(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DATA_VARIABLE)
    found = questions.find(project, "gsm8k")
    assert (found.source.name, found.source.origin) == ("our own", Origin.OWN)


def test_offline_the_hub_is_not_asked(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(requests, "head", asked)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv(DATA_VARIABLE)
    assert questions.find(project, "gsm8k").source.origin is Origin.OWN


def test_what_the_hub_gave_is_verified_and_used_again(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    write_questions: Write,
) -> None:
    monkeypatch.delenv(DATA_VARIABLE)
    cached = tmp_path / "cache" / "questions" / "gsm8k"
    write_questions(cached)
    assert questions.find(project, "gsm8k").source.origin is Origin.HUB
    write_questions(cached, 2)
    with pytest.raises(UsageError, match="sha256"):
        questions.find(project, "gsm8k")


def test_a_set_in_the_repository(project: Project, write_questions: Write) -> None:
    write_questions(project.root / "model" / "problems", 4)
    found = questions.find(project, "model/problems")
    assert (found.source.name, found.source.test) == ("model/problems", 4)
    with pytest.raises(UsageError, match="no such file"):
        questions.find(project, "model/absent")


def test_a_bad_line_is_named(project: Project, write_questions: Write) -> None:
    folder = project.root / "own"
    write_questions(folder)
    (folder / "test.jsonl").write_text('{"question": "q", "answer": "a"}\n{"q": 1}\n')
    with pytest.raises(UsageError, match=r"test\.jsonl:2: is no object"):
        questions.find(project, "own")


def test_prompts_have_the_tasks_layout(project: Project) -> None:
    found = questions.find(project, "gsm8k")
    prompts = questions.few_shot_prompts(found, 2, fewshot=2)
    assert prompts[1] == (
        "Question: train 2?\nAnswer: #### 2\n\n"
        "Question: train 0?\nAnswer: #### 0\n\n"
        "Question: test 1?\nAnswer:"
    )
    assert len(questions.few_shot_prompts(found, 99, fewshot=0)) == 3


def test_our_problems_are_what_the_config_says() -> None:
    config = load(ROOT / "configs" / "questions.yaml", QuestionConfig)
    folder = ROOT / "configs" / config.own_folder
    assert hashes(folder) == config.own.sha256
    rows = [json.loads(x) for x in (folder / "test.jsonl").read_text().splitlines()]
    assert len({row["question"] for row in rows}) == 20
    for row in rows:
        steps = re.findall(r"<<([\d+*/ .-]+)=([\d.]+)>>", row["answer"])
        assert all(eval(left) == float(right) for left, right in steps)
        assert row["answer"].split("#### ")[1] == steps[-1][1]
