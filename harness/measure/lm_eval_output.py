# SPDX-License-Identifier: Apache-2.0
"""Read what lm-eval wrote, and hold it to what the server really answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import InfrastructureError
from harness.measure.recorder import Exchange
from harness.models.facts import AccuracyFacts, Answer, Outcome, QuestionSource
from harness.models.profile import AccuracyCell

INVALID = "[invalid]"
"""What lm-eval's regex filter gives for "nothing found"."""

_METRIC = "exact_match"


@dataclass(frozen=True)
class Asked:
    """What lm-eval was told to do."""

    cell: AccuracyCell
    task: str
    count: int
    version: str
    """Of lm-eval, as installed."""


@dataclass(frozen=True)
class _Completion:
    """What the server answered to one prompt."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    logprobs: tuple[float, ...]


def check_exchanges(exchanges: Sequence[Exchange], *, where: str) -> None:
    """Raise InfrastructureError if any request failed, with the server's own words."""
    for exchange in exchanges:
        if exchange.status != 200:
            how = f"got HTTP {exchange.status}" if exchange.status else "had no answer"
            raise InfrastructureError(
                f"a request {how}: {exchange.body[:300]}", where=where
            )


def read(
    output: Path,
    exchanges: Sequence[Exchange],
    asked: Asked,
    *,
    source: QuestionSource,
    seconds: float,
    command: Sequence[str],
) -> AccuracyFacts:
    """The facts of one run.

    Args:
        output: The folder given to lm-eval as ``--output_path``.
        exchanges: All requests that the recorder saw in this run.

    Raises:
        InfrastructureError: A sample or an answer is missing, or they differ.
    """
    results = json.loads(_only(output, "results_*.json").read_text(encoding="utf-8"))
    path = _only(output, f"samples_{asked.task}_*.jsonl")
    where = f"accuracy cell {asked.cell.name}"
    version = str(results.get("lm_eval_version"))
    if version != asked.version:
        raise InfrastructureError(
            f"lm-eval {version} ran, {asked.version} is installed", where=where
        )
    completions = _completions(exchanges, asked, where)
    samples = _by_question(path)
    if len(samples) != asked.count or len(completions) != asked.count:
        raise InfrastructureError(
            f"{asked.count} questions asked for, lm-eval kept {len(samples)}, the "
            f"server answered {len(completions)}",
            where=where,
        )
    answers = tuple(
        _answer(rows, completions, asked, where) for _, rows in sorted(samples.items())
    )
    cell = asked.cell
    return AccuracyFacts(
        cell=cell.name,
        task=cell.task,
        task_version=str(results["versions"][asked.task]),
        task_hash=str(results["task_hashes"][asked.task]),
        lm_eval=version,
        source=source,
        score=cell.score,
        fewshot=cell.fewshot,
        max_gen_toks=cell.max_gen_toks,
        concurrency=cell.concurrency,
        seed=cell.seed,
        answers=answers,
        seconds=seconds,
        command=tuple(command),
    )


def classify(*, right: bool, text: str, cut: bool, extracted: str) -> Outcome:
    """The outcome of one answer; the first that applies, in this order."""
    if right:
        return Outcome.RIGHT
    if cut:
        return Outcome.TRUNCATED
    if not text.strip():
        return Outcome.EMPTY
    if extracted in ("", INVALID):
        return Outcome.UNEXTRACTABLE
    return Outcome.WRONG


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        raise InfrastructureError(
            f"lm-eval left {len(found)} files {pattern}, one was due", where=str(folder)
        )
    return found[0]


def _lines(path: Path) -> list[str]:
    """Not splitlines(): an answer may hold U+0085 or U+2028, which JSON leaves raw."""
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def _by_question(path: Path) -> dict[int, list[dict[str, Any]]]:
    """The samples, one line per question and filter, gathered by question."""
    gathered: dict[int, list[dict[str, Any]]] = {}
    for number, line in enumerate(_lines(path), 1):
        try:
            sample = json.loads(line)
            gathered.setdefault(int(sample["doc_id"]), []).append(sample)
        except (ValueError, KeyError, TypeError) as error:
            raise InfrastructureError(
                "is no sample of lm-eval", where=f"{path}:{number}"
            ) from error
    return gathered


def _completions(
    exchanges: Sequence[Exchange], asked: Asked, where: str
) -> dict[str, _Completion]:
    """The server's answers by prompt."""
    completions: dict[str, _Completion] = {}
    for exchange in exchanges:
        if exchange.prompt in completions:
            raise InfrastructureError("a prompt was asked twice", where=where)
        completions[exchange.prompt] = _completion(exchange, asked, where)
    return completions


def _completion(exchange: Exchange, asked: Asked, where: str) -> _Completion:
    for name, expected in (
        ("temperature", asked.cell.temperature),
        ("max_tokens", asked.cell.max_gen_toks),
        ("seed", asked.cell.seed),
    ):
        if exchange.request.get(name) != expected:
            raise InfrastructureError(
                f"lm-eval sent {name}={exchange.request.get(name)}, not {expected}",
                where=where,
            )
    try:
        body = json.loads(exchange.body)
        (choice,) = body["choices"]
        usage = body["usage"]
        found = _Completion(
            text=choice["text"],
            finish_reason=choice["finish_reason"],
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=usage["completion_tokens"],
            logprobs=_logprobs(choice) if asked.cell.logprobs else (),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(
            f"no completion: {exchange.body[:200]}", where=where
        ) from error
    if found.finish_reason not in ("stop", "length"):
        raise InfrastructureError(
            f"a completion ended for the reason {found.finish_reason!r}", where=where
        )
    if found.completion_tokens < 1:
        raise InfrastructureError("a completion has no token", where=where)
    # A stop string is cut out of the answer, and its tokens with it.
    whole = found.finish_reason == "length"
    if asked.cell.logprobs and whole and len(found.logprobs) != asked.cell.max_gen_toks:
        raise InfrastructureError(
            f"{len(found.logprobs)} log-probabilities for "
            f"{asked.cell.max_gen_toks} tokens",
            where=where,
        )
    return found


def _logprobs(choice: dict[str, Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in choice["logprobs"]["token_logprobs"])


def _answer(
    rows: list[dict[str, Any]],
    completions: dict[str, _Completion],
    asked: Asked,
    where: str,
) -> Answer:
    first = rows[0]
    question = f"{where}, question {first['doc_id']}"
    by_filter = {row["filter"]: row for row in rows}
    if len(by_filter) != len(rows) or asked.cell.score not in by_filter:
        raise InfrastructureError(
            f"lm-eval kept the filters {[row['filter'] for row in rows]}",
            where=question,
        )
    scores = {name: _score(row, question) for name, row in by_filter.items()}
    filtered = {name: str(row["filtered_resps"][0]) for name, row in by_filter.items()}
    prompt = first["arguments"]["gen_args_0"]["arg_0"]
    raw = first["resps"][0][0]
    completion = completions.get(prompt)
    if completion is None:
        raise InfrastructureError("the server never saw this prompt", where=question)
    if completion.text != raw:
        raise InfrastructureError(
            f"lm-eval kept {raw[:80]!r}, the server said {completion.text[:80]!r}",
            where=question,
        )
    return Answer(
        doc_id=first["doc_id"],
        doc_hash=first["doc_hash"],
        prompt_hash=first["prompt_hash"],
        target=first["target"],
        raw=raw,
        filtered=filtered,
        scores=scores,
        outcome=classify(
            right=scores[asked.cell.score] == 1,
            text=raw,
            cut=completion.finish_reason == "length",
            extracted=filtered[asked.cell.score],
        ),
        finish_reason=completion.finish_reason,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        token_logprobs=completion.logprobs,
    )


def _score(row: dict[str, Any], where: str) -> float:
    score = row.get(_METRIC)
    if score not in (0, 1):
        raise InfrastructureError(f"lm-eval's score is {score!r}", where=where)
    return float(score)
