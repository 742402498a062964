# SPDX-License-Identifier: Apache-2.0
"""Judge the JSON of ``vllm bench serve``: is it a measurement at all?

Each rule stands for a way in which the benchmark of v0.26.0 reports nonsense with exit
status 0: all requests failed and every latency is 0.0; some failed; a stream that broke
off counts as a success with a short output; prompts came out longer than asked; the
scrape of the draft counters failed without a word.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import InfrastructureError
from harness.measure import metrics
from harness.models.facts import DraftCounts, Latency, ServingFacts
from harness.models.profile import ServingCell

_INPUT_TOLERANCE = 0.01
"""Relative: how far the mean prompt length may be from the one asked for."""

_DETAILS = (
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "start_times",
    "generated_texts",
    "errors",
)
"""What ``--save-detailed`` adds: one entry per request each."""

_LATENCIES = ("ttft", "tpot", "itl", "e2el")


@dataclass(frozen=True)
class Asked:
    """What the benchmark was told to do."""

    requests: int
    concurrency: int
    input_tokens: int
    output_tokens: int
    model: str
    positions: int
    """Draft tokens per step; 0: the server does not speculate."""


@dataclass(frozen=True)
class Judged:
    """A result that passed every check on the file alone."""

    asked: Asked
    seconds: float
    input_tokens: int
    output_tokens: int
    output_tokens_per_second: float
    requests_per_second: float
    latencies: dict[str, Latency]
    drafts: DraftCounts | None
    outputs_sha256: str

    def facts(
        self, cell: ServingCell, *, seed: int, command: Sequence[str]
    ) -> ServingFacts:
        """The facts of this run of ``cell``."""
        return ServingFacts(
            cell=cell.name,
            dataset=cell.dataset,
            seed=seed,
            requests=self.asked.requests,
            concurrency=self.asked.concurrency,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            seconds=self.seconds,
            output_tokens_per_second=self.output_tokens_per_second,
            requests_per_second=self.requests_per_second,
            ttft=self.latencies["ttft"],
            tpot=self.latencies["tpot"],
            itl=self.latencies["itl"],
            e2el=self.latencies["e2el"],
            drafts=self.drafts,
            outputs_sha256=self.outputs_sha256,
            command=tuple(command),
        )


def read(path: Path) -> dict[str, Any]:
    """The result file (the benchmark does not write it atomically).

    Raises:
        InfrastructureError: It is missing or not whole.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InfrastructureError(
            "the benchmark wrote no result", where=str(path), fix="see its log beside"
        ) from error
    except ValueError as error:
        raise InfrastructureError(
            f"the benchmark's result is not whole: {error}", where=str(path)
        ) from error
    if not isinstance(data, dict):
        raise InfrastructureError("is no result of a benchmark", where=str(path))
    return data


def judge(data: dict[str, Any], asked: Asked, *, where: str) -> Judged:
    """Check the result against what was asked for.

    Raises:
        InfrastructureError: Names the first thing that makes it no measurement.
    """
    result = _Result(data, where)
    _check_requests(result, asked)
    _check_lengths(result, asked)
    _check_times(result, asked)
    texts = result.per_request("generated_texts", asked.requests)
    return Judged(
        asked=asked,
        seconds=result.positive("duration"),
        input_tokens=result.integer("total_input_tokens"),
        output_tokens=result.integer("total_output_tokens"),
        output_tokens_per_second=result.positive("output_throughput"),
        requests_per_second=result.positive("request_throughput"),
        latencies={name: _latency(result, name) for name in _LATENCIES},
        drafts=_drafts(result, asked),
        outputs_sha256=hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
    )


def check_against_server(
    judged: Judged, asked: Asked, before: metrics.Snapshot, after: metrics.Snapshot
) -> None:
    """Hold the client's story to the server's counters around the benchmark.

    Raises:
        InfrastructureError: They differ: requests were lost, cut or added by others.
    """
    done = metrics.finished(before, after)
    if done != {"length": asked.requests}:
        raise InfrastructureError(
            f"finished requests are {done}, {asked.requests} were asked for and all "
            "end by length",
            where=metrics.WHERE,
        )
    for name, expected in (
        ("vllm:generation_tokens", judged.output_tokens),
        ("vllm:prompt_tokens", judged.input_tokens),
    ):
        counted = metrics.counted(before, after, name)
        if counted != expected:
            raise InfrastructureError(
                f"{name} grew by {counted}, the benchmark counts {expected}",
                where=metrics.WHERE,
            )
    metrics.check_prefix_cache(before, after)
    if asked.positions:
        counts = metrics.require_drafts(before, after, asked.positions)
        if counts != judged.drafts:
            raise InfrastructureError(
                f"draft counters are {counts}, the benchmark reports {judged.drafts}",
                where=metrics.WHERE,
            )


class _Result:
    """The result's fields, each read with the check that its kind needs."""

    def __init__(self, data: dict[str, Any], where: str) -> None:
        self._data = data
        self._where = where

    def fail(self, what: str) -> InfrastructureError:
        return InfrastructureError(f"no valid benchmark: {what}", where=self._where)

    def has(self, name: str) -> bool:
        return self._data.get(name) is not None

    def field(self, name: str) -> Any:
        if not self.has(name):
            raise self.fail(f"{name} is missing")
        return self._data[name]

    def number(self, name: str) -> float:
        return self._finite(self.field(name), name)

    def positive(self, name: str) -> float:
        value = self.number(name)
        if value <= 0:
            raise self.fail(f"{name} is {value:g}")
        return value

    def integer(self, name: str) -> int:
        value = self.number(name)
        if value != int(value) or value < 0:
            raise self.fail(f"{name} is {value:g}, not a count")
        return int(value)

    def per_request(self, name: str, count: int) -> list[Any]:
        values = self.field(name)
        if not isinstance(values, list) or len(values) != count:
            size = len(values) if isinstance(values, list) else "no list"
            raise self.fail(f"{name} has {size} entries for {count} requests")
        return values

    def numbers(self, name: str, count: int) -> list[float]:
        values = self.per_request(name, count)
        return [self._finite(value, f"{name}[{i}]") for i, value in enumerate(values)]

    def _finite(self, value: Any, name: str) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise self.fail(f"{name} is {value!r}, not a number")
        return float(value)


def _check_requests(result: _Result, asked: Asked) -> None:
    count = asked.requests
    completed, failed = result.integer("completed"), result.integer("failed")
    if (completed, failed) != (count, 0):
        errors = (
            [e for e in result.field("errors") if e] if result.has("errors") else []
        )
        first = f"; the first error: {str(errors[0])[:200]}" if errors else ""
        raise result.fail(f"{completed} of {count} completed, {failed} failed{first}")
    for name in _DETAILS:
        result.per_request(name, count)
    for index, error in enumerate(result.per_request("errors", count)):
        if error:
            raise result.fail(f"request {index} reports an error: {str(error)[:200]}")
    for name, expected in (
        ("num_prompts", count),
        ("max_concurrency", asked.concurrency),
    ):
        if result.integer(name) != expected:
            raise result.fail(f"{name} is {result.field(name)}, asked was {expected}")
    if result.field("model_id") != asked.model:
        raise result.fail(f"model_id is {result.field('model_id')!r}")


def _check_lengths(result: _Result, asked: Asked) -> None:
    outputs = result.numbers("output_lens", asked.requests)
    for index, length in enumerate(outputs):
        if length != asked.output_tokens:
            raise result.fail(
                f"request {index} has {length:g} output tokens, not "
                f"{asked.output_tokens}: its stream broke off"
            )
    if result.integer("total_output_tokens") != sum(outputs):
        raise result.fail("total_output_tokens is not the sum of output_lens")
    inputs = result.numbers("input_lens", asked.requests)
    total = result.integer("total_input_tokens")
    if total != sum(inputs):
        raise result.fail("total_input_tokens is not the sum of input_lens")
    mean = total / asked.requests
    if abs(mean - asked.input_tokens) > _INPUT_TOLERANCE * asked.input_tokens:
        raise result.fail(
            f"prompts have {mean:g} tokens in the mean, not {asked.input_tokens}"
        )


def _check_times(result: _Result, asked: Asked) -> None:
    seconds = result.positive("duration")
    for index, ttft in enumerate(result.numbers("ttfts", asked.requests)):
        if ttft <= 0:
            raise result.fail(f"request {index} has a time to first token of {ttft:g}")
    for index, gaps in enumerate(result.per_request("itls", asked.requests)):
        if not isinstance(gaps, list) or not gaps:
            raise result.fail(f"request {index} came in one chunk or none")
        if any(not isinstance(gap, int | float) or gap < 0 for gap in gaps):
            raise result.fail(f"request {index} has a negative time between chunks")
    for name, total in (
        ("output_throughput", result.integer("total_output_tokens")),
        ("request_throughput", asked.requests),
    ):
        if not math.isclose(result.positive(name), total / seconds, rel_tol=1e-6):
            raise result.fail(f"{name} does not follow from counts and duration")


def _latency(result: _Result, name: str) -> Latency:
    return Latency(
        mean=result.positive(f"mean_{name}_ms"),
        median=result.positive(f"median_{name}_ms"),
        p99=result.positive(f"p99_{name}_ms"),
    )


def _drafts(result: _Result, asked: Asked) -> DraftCounts | None:
    present = result.has("spec_decode_num_drafts")
    if not asked.positions:
        if present:
            raise result.fail("draft counts of a server that does not speculate")
        return None
    if not present:
        raise result.fail("no draft counts: the scrape of the metrics failed")
    drafts = result.integer("spec_decode_num_drafts")
    rates = result.field("spec_decode_per_position_acceptance_rates")
    if not isinstance(rates, list) or len(rates) != asked.positions:
        raise result.fail(f"acceptance rates by position are {rates}")
    length = result.number("spec_decode_acceptance_length")
    if not math.isclose(length, 1 + sum(rates), rel_tol=1e-9, abs_tol=1e-9):
        raise result.fail(
            f"acceptance length {length:g} is not 1 + the sum of {rates} by position"
        )
    try:
        return DraftCounts(
            drafts=drafts,
            draft_tokens=result.integer("spec_decode_draft_tokens"),
            accepted_tokens=result.integer("spec_decode_accepted_tokens"),
            accepted_by_position=tuple(round(rate * drafts) for rate in rates),
        )
    except ValueError as error:
        raise result.fail(f"draft counts contradict: {error}") from error
