# SPDX-License-Identifier: Apache-2.0
"""Find the questions that a profile names, and say where they came from."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from harness import paths, processes
from harness.errors import UsageError
from harness.files import sha256_file
from harness.models.base import load
from harness.models.facts import Origin, QuestionSource
from harness.models.questions import FILES, HubDataset, QuestionConfig, QuestionFiles
from harness.paths import DATA_VARIABLE, Project
from harness.runtime.environment import ensure
from harness.runtime.variables import child_environment

PUBLIC = "gsm8k"
"""The name under which profiles ask for the public set."""

_EXPORTER = Path(__file__).resolve().parent.parent / "inside" / "export_questions.py"
_FETCH_TIMEOUT = 300.0

_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


@dataclass(frozen=True)
class Question:
    """One problem with its worked answer."""

    question: str
    answer: str


@dataclass(frozen=True)
class Questions:
    """A set at hand, in a folder with test.jsonl and train.jsonl."""

    source: QuestionSource
    folder: Path

    def rows(self, file: str) -> list[Question]:
        """The problems of ``test.jsonl`` or ``train.jsonl``."""
        return _read(self.folder / file)


def find(project: Project, data: str) -> Questions:
    """The question set that a profile's cell names.

    Args:
        data: ``gsm8k``, or a folder of this repository.

    Raises:
        UsageError: A file is missing, or differs from what it should be.
    """
    if data != PUBLIC:
        return _in_repository(project, data)
    config = load(project.configs / "questions.yaml", QuestionConfig)
    folder = project.data / PUBLIC
    if folder.is_dir():
        return _verified(folder, config.gsm8k, Origin.FOLDER)
    if os.environ.get(DATA_VARIABLE):
        raise UsageError(
            "no such folder", where=str(folder), fix=f"{DATA_VARIABLE} names its parent"
        )
    cached = paths.cache_dir() / "questions" / PUBLIC
    if not cached.is_dir() and _reachable(config.hub):
        _fetch(project, config.hub, cached)
    if cached.is_dir():
        return _verified(cached, config.gsm8k, Origin.HUB)
    own = project.configs / config.own_folder
    return _verified(own, config.own, Origin.OWN)


def few_shot_prompts(
    questions: Questions, count: int, *, fewshot: int
) -> tuple[str, ...]:
    """At most ``count`` prompts in the layout of lm-eval's gsm8k, without scoring.

    The examples before question ``i`` are the training problems from ``i * fewshot``
    on, so that prompts share no long beginning.
    """
    tests, train = questions.rows("test.jsonl")[:count], questions.rows("train.jsonl")
    prompts = []
    for index, test in enumerate(tests):
        start = index * fewshot
        shots = [train[(start + i) % len(train)] for i in range(fewshot)]
        prompts.append(_layout(shots, test))
    return tuple(prompts)


def _layout(shots: Sequence[Question], test: Question) -> str:
    examples = [f"Question: {s.question}\nAnswer: {s.answer}\n\n" for s in shots]
    return "".join([*examples, f"Question: {test.question}\nAnswer:"])


def _in_repository(project: Project, data: str) -> Questions:
    folder = project.root / data
    hashes = {}
    for name in FILES:
        if not (folder / name).is_file():
            raise UsageError("no such file", where=str(folder / name))
        hashes[name] = sha256_file(folder / name)
    found = QuestionFiles(name=data, sha256=hashes)
    return _verified(folder, found, Origin.OWN)


def _verified(folder: Path, expected: QuestionFiles, origin: Origin) -> Questions:
    """The folder's set, if its files are the ones expected."""
    for name in FILES:
        path = folder / name
        if not path.is_file():
            raise UsageError("no such file", where=str(path))
        found = sha256_file(path)
        if found != expected.sha256.get(name):
            raise UsageError(
                f"sha256 is {found}, expected {expected.sha256.get(name)}",
                where=str(path),
                fix="a partial download? Fetch the file again",
            )
    source = QuestionSource(
        name=expected.name,
        origin=origin,
        test=len(_read(folder / "test.jsonl")),
        sha256=expected.sha256,
    )
    return Questions(source, folder.resolve())


def _read(path: Path) -> list[Question]:
    rows = []
    # Not splitlines(), which would cut at characters that JSON leaves raw.
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows.append(Question(row["question"], row["answer"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                "is no object with question and answer", where=f"{path}:{number}"
            ) from error
    return rows


def _fetch(project: Project, hub: HubDataset, folder: Path) -> None:
    """Download the set into ``folder``, aside first (lm-eval's environment does it)."""
    environment = ensure(project, "lm-eval")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        script = [str(environment.python), str(_EXPORTER)]
        processes.run(
            [*script, "--path", hub.path, "--config", hub.config, "--out", str(aside)],
            log=folder.with_name(f"{folder.name}.log"),
            timeout=_FETCH_TIMEOUT,
            env=child_environment(),
        ).check(f"fetching {hub.path} from the hub")
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _reachable(hub: HubDataset) -> bool:
    """Whether the hub answers for this data set, within its few seconds."""
    if any(os.environ.get(name, "") not in ("", "0") for name in _OFFLINE):
        return False
    try:
        return requests.head(hub.url, timeout=hub.timeout).status_code == 200
    except requests.RequestException:
        return False
