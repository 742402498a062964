# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from harness.errors import InfrastructureError
from harness.evidence.pairing import flips, pair
from harness.models.facts import (
    AccuracyFacts,
    Answer,
    Origin,
    Outcome,
    QuestionSource,
)


def answer(number: int, outcome: Outcome, raw: str = "x", **changes: Any) -> Answer:
    values: dict[str, Any] = {
        "doc_id": number,
        "doc_hash": f"d{number}",
        "prompt_hash": f"p{number}",
        "target": "5",
        "raw": raw,
        "filtered": {"strict-match": "5"},
        "scores": {"strict-match": float(outcome is Outcome.RIGHT)},
        "outcome": outcome,
        "finish_reason": "stop",
        "prompt_tokens": 9,
        "completion_tokens": 3,
        **changes,
    }
    return Answer(**values)


def facts(*answers: Answer, **changes: Any) -> AccuracyFacts:
    source = QuestionSource(name="gsm8k", origin=Origin.FOLDER, test=9, sha256={})
    values: dict[str, Any] = {
        "cell": "gsm8k",
        "task": "gsm8k",
        "task_version": "3.0",
        "task_hash": "abc",
        "lm_eval": "0.4.13",
        "source": source,
        "score": "strict-match",
        "fewshot": 2,
        "max_gen_toks": 32,
        "concurrency": 4,
        "seed": 1,
        "answers": answers,
        "seconds": 1.0,
        "command": ("x",),
        **changes,
    }
    return AccuracyFacts(**values)


RIGHT, WRONG, EMPTY = Outcome.RIGHT, Outcome.WRONG, Outcome.EMPTY


def test_flips_keep_both_answers() -> None:
    base = facts(
        answer(0, RIGHT), answer(1, RIGHT, "yes"), answer(2, WRONG), answer(3, WRONG)
    )
    # Another order of answers is the same run.
    patched = facts(
        answer(3, RIGHT), answer(2, EMPTY), answer(1, EMPTY, ""), answer(0, RIGHT)
    )
    pairs = pair(base, patched)
    assert [p.base.doc_id for p in pairs] == [0, 1, 2, 3]
    harmed, helped = flips(pairs)
    assert (harmed.base.raw, harmed.patched.raw, harmed.harmed) == ("yes", "", True)
    assert (helped.base.doc_id, helped.harmed) == (3, False)


def test_logprobs_are_compared_on_equal_texts_only() -> None:
    base = facts(
        answer(0, RIGHT, token_logprobs=(-1.0, -2.0)),
        answer(1, RIGHT, token_logprobs=(-1.0, -2.0)),
        answer(2, RIGHT),
    )
    patched = facts(
        answer(0, RIGHT, token_logprobs=(-1.25, -1.0)),
        answer(1, RIGHT, "other", token_logprobs=(-9.0, -9.0)),
        answer(2, RIGHT),
    )
    differences = [p.logprob_difference for p in pair(base, patched)]
    assert differences == [1.0, None, None]


@pytest.mark.parametrize(
    "changes",
    [
        {"fewshot": 3},
        {"seed": 2},
        {"lm_eval": "0.4.12"},
        {"task_version": "2.0"},
        {"max_gen_toks": 33},
        {"concurrency": 5},
        {"source": QuestionSource(name="own", origin="hub", test=9, sha256={})},
    ],
)
def test_runs_asked_otherwise_are_refused(changes: dict[str, Any]) -> None:
    base, patched = facts(answer(0, RIGHT)), facts(answer(0, RIGHT), **changes)
    with pytest.raises(InfrastructureError, match=f"{next(iter(changes))} is"):
        pair(base, patched)


@pytest.mark.parametrize("name", ["doc_hash", "prompt_hash"])
def test_other_hashes_are_refused(name: str) -> None:
    base = facts(answer(0, RIGHT), answer(1, RIGHT))
    patched = facts(answer(0, RIGHT), answer(1, RIGHT, **{name: "changed"}))
    with pytest.raises(InfrastructureError, match="first at question 1"):
        pair(base, patched)


def test_a_missing_question_is_refused() -> None:
    base = facts(answer(0, RIGHT), answer(1, RIGHT))
    with pytest.raises(InfrastructureError, match="first at question 1"):
        pair(base, facts(answer(0, RIGHT)))


def test_a_question_counts_once() -> None:
    with pytest.raises(ValueError, match="answered twice"):
        facts(answer(0, RIGHT), answer(0, RIGHT))
