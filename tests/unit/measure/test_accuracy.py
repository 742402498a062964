# SPDX-License-Identifier: Apache-2.0
"""The path around lm-eval, with a stand-in for it that asks and writes as it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.measure import accuracy, questions
from harness.measure.questions import Questions
from harness.measure.runner import Client
from harness.models.endpoint import Endpoint
from harness.models.facts import AccuracyFacts, Outcome
from harness.models.profile import AccuracyCell, Count, Deadlines
from harness.paths import Project
from harness.runtime.environment import Environment
from tests.unit.measure.conftest import FakeServer

CELL = AccuracyCell(
    name="gsm8k",
    fewshot=2,
    questions=Count(full=3, quick=3),
    max_gen_toks=4,
    concurrency=2,
    seed=7,
)
DEADLINES = Deadlines(start=60, stall=60, request=60, accuracy=120, serving=60)

# Asks one prompt a question like lm-eval's client does, then writes its two files.
STAND_IN = """
import json, os, sys, pathlib, urllib.request
arguments = sys.argv
def after(flag): return arguments[arguments.index(flag) + 1]
pairs = dict(a.split("=", 1) for a in arguments if "=" in a)
task, out = after("--tasks"), pathlib.Path(after("--output_path")) / "m"
spec = json.loads((pathlib.Path(after("--include_path")) / f"{task}.yaml").read_text())
rows = open(spec["dataset_kwargs"]["data_files"]["test"]).read().split("\\n")
samples = []
for number in range(int(after("--limit"))):
    prompt = "Question: " + json.loads(rows[number])["question"]
    body = {"model": "m", "prompt": prompt, "temperature": int(pairs["temperature"]),
            "max_tokens": int(pairs["max_gen_toks"]), "seed": int(pairs["seed"])}
    request = urllib.request.Request(pairs["base_url"], json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    text = json.load(urllib.request.urlopen(request))["choices"][0]["text"]
    samples.append({"doc_id": number, "doc_hash": f"d{number}", "resps": [[text]],
        "prompt_hash": f"p{number}", "target": "5", "filter": "strict-match",
        "arguments": {"gen_args_0": {"arg_0": prompt}}, "filtered_resps": ["4"],
        "exact_match": 0.0})
if os.environ.get("STAND_IN_FAILS"): raise SystemExit("Traceback: out of ideas")
out.mkdir(parents=True)
(out / f"samples_{task}_1.jsonl").write_text(
    "".join(json.dumps(s) + "\\n" for s in samples))
(out / "results_1.json").write_text(json.dumps({"lm_eval_version": "0.4.13",
    "versions": {task: 3.0}, "task_hashes": {task: "abc"}}))
"""


class StandIn(Client):
    """lm-eval's environment with the stand-in as its program."""

    def command(self, module: str, *arguments: str) -> list[str]:
        assert module == accuracy.MODULE
        return [sys.executable, "-c", STAND_IN, *arguments]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    tasks = tmp_path / "site" / "lm_eval" / "tasks" / "gsm8k"
    tasks.mkdir(parents=True)
    (tasks / "gsm8k.yaml").write_text("task: gsm8k\n")
    environment = Environment(
        name="lm-eval",
        key="0",
        python=Path(sys.executable),
        python_version="3",
        site_packages=tmp_path / "site",
        packages={"lm-eval": "0.4.13"},
    )
    return StandIn(environment)


@pytest.fixture
def three(tmp_path: Path, write_questions) -> Questions:  # type: ignore[no-untyped-def]
    write_questions(tmp_path / "project" / "own")
    return questions.find(Project(tmp_path / "project"), "own")


def run(
    client: Client, endpoint: Endpoint, three: Questions, folder: Path, count: int = 3
) -> AccuracyFacts:
    return accuracy.measure(
        client, endpoint, CELL, three, folder, count=count, deadlines=DEADLINES
    )


def test_every_question_is_asked_and_kept(
    client: Client,
    endpoint: Endpoint,
    three: Questions,
    fake: FakeServer,
    tmp_path: Path,
) -> None:
    facts = run(client, endpoint, three, tmp_path / "out")
    assert len(facts.answers) == len(fake.bodies) == 3
    assert facts.counts[Outcome.TRUNCATED] == 3
    assert facts.source.name == "own"
    raw = (tmp_path / "out" / "exchanges.jsonl").read_text().splitlines()
    assert len(raw) == 3
    assert "secret" not in "".join([*raw, *facts.command])


def test_a_second_run_replaces_the_first(
    client: Client, endpoint: Endpoint, three: Questions, tmp_path: Path
) -> None:
    run(client, endpoint, three, tmp_path / "out")
    assert len(run(client, endpoint, three, tmp_path / "out", 2).answers) == 2


def test_a_small_set_is_asked_whole(
    client: Client, endpoint: Endpoint, three: Questions, tmp_path: Path
) -> None:
    assert len(run(client, endpoint, three, tmp_path / "out", 32).answers) == 3


def test_the_servers_word_comes_before_lm_evals(
    client: Client,
    endpoint: Endpoint,
    three: Questions,
    fake: FakeServer,
    tmp_path: Path,
) -> None:
    fake.status = 400
    with pytest.raises(InfrastructureError, match=r"HTTP 400.*prompt is too long"):
        run(client, endpoint, three, tmp_path / "out")


def test_a_failure_of_lm_eval_is_no_number(
    client: Client,
    endpoint: Endpoint,
    three: Questions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        StandIn, "env", property(lambda _: {"STAND_IN_FAILS": "1", "PATH": "/bin"})
    )
    with pytest.raises(InfrastructureError, match="lm-eval: ended with status 1"):
        run(client, endpoint, three, tmp_path / "out")


def test_the_task_is_lm_evals_own_but_for_the_data(tmp_path: Path) -> None:
    original = tmp_path / "gsm8k.yaml"
    made = json.loads(accuracy.local_task(original, "local_gsm8k", tmp_path))
    assert made.keys() == {
        "include",
        "task",
        "dataset_path",
        "dataset_name",
        "dataset_kwargs",
    }
    assert made["include"] == str(original)
