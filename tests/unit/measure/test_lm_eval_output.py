# SPDX-License-Identifier: Apache-2.0
"""lm-eval's samples count only when they are all there and the server said the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfrastructureError
from harness.measure.lm_eval_output import Asked, check_exchanges, classify, read
from harness.measure.recorder import Exchange
from harness.models.facts import AccuracyFacts, Outcome, QuestionSource
from harness.models.profile import AccuracyCell, Count

CELL = AccuracyCell(
    name="gsm8k",
    fewshot=2,
    questions=Count(full=3, quick=3),
    max_gen_toks=4,
    concurrency=2,
    logprobs=True,
    seed=7,
)
ASKED = Asked(CELL, "local_gsm8k", 3, "0.4.13")
TEXTS = ["#### 5", "#### 4", "no idea\u2028\x85"]
STRICT = ["5", "4", "[invalid]"]
REASONS = ["stop", "length", "stop"]


@dataclass
class Run:
    """What lm-eval and the recorder leave of three questions."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    asked: Asked = ASKED

    def read(self, folder: Path, source: QuestionSource) -> AccuracyFacts:
        out = folder / "m"
        out.mkdir(parents=True)
        # lm-eval writes text as it is, line separators of Unicode included.
        lines = [json.dumps(s, ensure_ascii=False) + "\n" for s in self.samples]
        (out / "samples_local_gsm8k_1.jsonl").write_text("".join(lines))
        (out / "results_1.json").write_text(json.dumps(self.results))
        return read(
            folder, self.exchanges, self.asked, source=source, seconds=1, command=["x"]
        )


def sample(number: int, name: str) -> dict[str, Any]:
    right = number == 0
    return {
        "doc_id": number,
        "doc_hash": f"d{number}",
        "prompt_hash": f"p{number}",
        "target": "#### 5",
        "arguments": {"gen_args_0": {"arg_0": f"prompt {number}", "arg_1": {}}},
        "resps": [[TEXTS[number]]],
        "filtered_resps": [STRICT[number]],
        "filter": name,
        "exact_match": 1.0 if right else 0.0,
    }


def exchange(number: int, **request: Any) -> Exchange:
    size = 4 if REASONS[number] == "length" else 3
    choice = {
        "text": TEXTS[number],
        "finish_reason": REASONS[number],
        "logprobs": {"token_logprobs": [-0.5] * size},
    }
    usage = {"prompt_tokens": 9, "completion_tokens": size}
    asked = {
        "prompt": f"prompt {number}",
        "temperature": 0,
        "max_tokens": 4,
        "seed": 7,
        **request,
    }
    return Exchange(asked, 200, json.dumps({"choices": [choice], "usage": usage}))


@pytest.fixture
def run() -> Run:
    filters = ("strict-match", "flexible-extract")
    return Run(
        samples=[sample(number, name) for name in filters for number in range(3)],
        results={
            "lm_eval_version": "0.4.13",
            "versions": {"local_gsm8k": 3.0},
            "task_hashes": {"local_gsm8k": "abc"},
        },
        exchanges=[exchange(number) for number in (2, 0, 1)],
    )


def test_answers_come_whole(run: Run, tmp_path: Path, source: QuestionSource) -> None:
    facts = run.read(tmp_path, source)
    assert [a.outcome for a in facts.answers] == [
        Outcome.RIGHT,
        Outcome.TRUNCATED,
        Outcome.UNEXTRACTABLE,
    ]
    assert facts.accuracy == pytest.approx(1 / 3)
    assert facts.counts[Outcome.EMPTY] == 0
    assert facts.answers[2].raw == TEXTS[2]
    assert facts.answers[1].token_logprobs == (-0.5,) * 4
    assert [a.cut for a in facts.answers] == [False, True, False]
    assert (facts.task, facts.task_version, facts.task_hash) == ("gsm8k", "3.0", "abc")


def test_answers_may_be_sampled(
    run: Run, tmp_path: Path, source: QuestionSource
) -> None:
    cell = CELL.model_copy(update={"temperature": 0.5})
    run.asked = replace(ASKED, cell=cell)
    run.exchanges = [exchange(number, temperature=0.5) for number in range(3)]
    assert len(run.read(tmp_path, source).answers) == 3


def drop_question(run: Run) -> None:
    run.samples = [s for s in run.samples if s["doc_id"] != 1]


def drop_answer(run: Run) -> None:
    run.exchanges.pop()


def ask_twice(run: Run) -> None:
    run.exchanges.append(exchange(1))


def other_text(run: Run) -> None:
    run.samples[1]["resps"] = [["#### 44"]]


def other_prompt(run: Run) -> None:
    run.samples[1]["arguments"]["gen_args_0"]["arg_0"] = "prompt 9"


def lost_filter(run: Run) -> None:
    run.samples = [s for s in run.samples if s["filter"] != "strict-match"]


def odd_score(run: Run) -> None:
    run.samples[0]["exact_match"] = None


def other_version(run: Run) -> None:
    run.results["lm_eval_version"] = "0.4.9"


def sampled(run: Run) -> None:
    run.exchanges[0] = exchange(2, temperature=1)


def unlimited(run: Run) -> None:
    run.exchanges[0] = exchange(2, max_tokens=256)


def unseeded(run: Run) -> None:
    run.exchanges[0] = exchange(2, seed=1234)


def garbled(run: Run) -> None:
    run.exchanges[0] = Exchange(run.exchanges[0].request, 200, "{}")


def doctor(run: Run, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    place = next(
        i
        for i, e in enumerate(run.exchanges)
        if e.request["prompt"] == f"prompt {number}"
    )
    body = json.loads(run.exchanges[place].body)
    change(body)
    old = run.exchanges[place]
    run.exchanges[place] = Exchange(old.request, 200, json.dumps(body))


def aborted(run: Run) -> None:
    doctor(run, 0, lambda b: b["choices"][0].update(finish_reason="abort"))


def no_tokens(run: Run) -> None:
    doctor(run, 0, lambda b: b["usage"].update(completion_tokens=0))


def lost_logprob(run: Run) -> None:
    doctor(run, 1, lambda b: b["choices"][0]["logprobs"]["token_logprobs"].pop())


def no_logprobs(run: Run) -> None:
    doctor(run, 1, lambda b: b["choices"][0].update(logprobs=None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_question, "lm-eval kept 2, the server answered 3"),
        (drop_answer, "lm-eval kept 3, the server answered 2"),
        (ask_twice, "a prompt was asked twice"),
        (other_text, "the server said '#### 4'"),
        (other_prompt, "never saw this prompt"),
        (lost_filter, "kept the filters ['flexible-extract']"),
        (odd_score, "score is None"),
        (other_version, "lm-eval 0.4.9 ran"),
        (sampled, "sent temperature=1"),
        (unlimited, "sent max_tokens=256"),
        (unseeded, "sent seed=1234"),
        (garbled, "no completion"),
        (aborted, "for the reason 'abort'"),
        (no_tokens, "has no token"),
        (lost_logprob, "3 log-probabilities for 4 tokens"),
        (no_logprobs, "no completion"),
    ],
)
def test_a_gap_is_no_number(
    run: Run,
    tmp_path: Path,
    source: QuestionSource,
    change: Callable[[Run], None],
    message: str,
) -> None:
    change(run)
    with pytest.raises(InfrastructureError) as caught:
        run.read(tmp_path, source)
    assert message in caught.value.line()


def test_files_of_two_runs_are_refused(
    run: Run, tmp_path: Path, source: QuestionSource
) -> None:
    (tmp_path / "results_0.json").write_text("{}")
    with pytest.raises(InfrastructureError, match="left 2 files"):
        run.read(tmp_path, source)


@pytest.mark.parametrize(
    ("right", "text", "cut", "extracted", "outcome"),
    [
        (True, "#### 5", False, "5", Outcome.RIGHT),
        (True, "#### 5 and on", True, "5", Outcome.RIGHT),
        (False, "#### 4 and on", True, "4", Outcome.TRUNCATED),
        (False, " ", True, "[invalid]", Outcome.TRUNCATED),
        (False, " \n", False, "[invalid]", Outcome.EMPTY),
        (False, "five", False, "[invalid]", Outcome.UNEXTRACTABLE),
        (False, "#### 4", False, "4", Outcome.WRONG),
    ],
)
def test_outcomes(
    right: bool, text: str, cut: bool, extracted: str, outcome: Outcome
) -> None:
    assert classify(right=right, text=text, cut=cut, extracted=extracted) is outcome


def test_a_failed_request_is_told_in_the_servers_words() -> None:
    fine = exchange(0)
    check_exchanges([fine], where="cell")
    long = Exchange({}, 400, '{"message": "maximum context length is 4096"}')
    with pytest.raises(InfrastructureError, match=r"HTTP 400.*context length is 4096"):
        check_exchanges([fine, long], where="cell")
    with pytest.raises(InfrastructureError, match="had no answer"):
        check_exchanges([Exchange({}, 0, "refused")], where="cell")
