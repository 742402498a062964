# SPDX-License-Identifier: Apache-2.0
"""The server's Prometheus counters: read, summed over engines, and subtracted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import requests
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from harness.errors import InfrastructureError
from harness.models.endpoint import Endpoint
from harness.models.facts import DraftCounts, StepFacts

WHERE = "the server's metrics"

_SPECULATION = "vllm:spec_decode_num_"
_STEP = "vllm:inter_token_latency_seconds"
_MAX_PREFIX_HITS = 0.01
"""Share of prompt tokens from the prefix cache above which the cache is measured."""


@dataclass(frozen=True)
class Snapshot:
    """Counters at one moment, each summed over the server's engines."""

    totals: Mapping[str, float]
    """By metric name; of the histogram of steps, its sum and count."""
    by_position: Mapping[int, float] = field(default_factory=dict)
    """Accepted draft tokens by position in the draft."""
    by_reason: Mapping[str, float] = field(default_factory=dict)
    """Finished requests by reason."""
    cache_blocks: int = 0
    block_tokens: int = 0

    @property
    def steps(self) -> StepFacts | None:
        """The steps of requests beyond their first; None if there was none."""
        count = round(self.totals.get(f"{_STEP}_count", 0))
        seconds = self.totals.get(f"{_STEP}_sum", 0)
        return StepFacts(count=count, seconds=seconds) if count and seconds else None

    @property
    def work(self) -> tuple[object, ...]:
        """What moves only while requests are served."""
        names = ("vllm:prompt_tokens", "vllm:generation_tokens")
        return (*(self.totals.get(name) for name in names), dict(self.by_reason))

    @property
    def speculates(self) -> bool:
        return f"{_SPECULATION}drafts" in self.totals


def scrape(endpoint: Endpoint, *, timeout: float = 30.0) -> Snapshot:
    """Read the counters now.

    Raises:
        InfrastructureError: The server does not answer, or not with metrics.
    """
    try:
        answer = requests.get(endpoint.metrics, timeout=timeout)
        answer.raise_for_status()
        return parse(answer.text)
    except requests.RequestException as error:
        raise InfrastructureError(f"can't be read: {error}", where=WHERE) from error


def parse(text: str) -> Snapshot:
    """Metrics text to a snapshot.

    Raises:
        InfrastructureError: It is no metrics text of vLLM's.
    """
    totals: dict[str, float] = {}
    positions: dict[int, float] = {}
    reasons: dict[str, float] = {}
    blocks, block_tokens = 0, 0
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels, value = sample.labels, sample.value
                if family.name == "vllm:cache_config_info":
                    blocks += _integer(labels.get("num_gpu_blocks"))
                    block_tokens = _integer(labels.get("block_size"))
                elif sample.name in (f"{_STEP}_sum", f"{_STEP}_count"):
                    totals[sample.name] = totals.get(sample.name, 0) + value
                elif sample.name == f"{family.name}_total":
                    totals[family.name] = totals.get(family.name, 0) + value
                    if family.name == f"{_SPECULATION}accepted_tokens_per_pos":
                        place = int(labels["position"])
                        positions[place] = positions.get(place, 0) + value
                    elif family.name == "vllm:request_success":
                        reason = labels["finished_reason"]
                        reasons[reason] = reasons.get(reason, 0) + value
    except (ValueError, KeyError) as error:
        raise InfrastructureError(f"not readable: {error}", where=WHERE) from error
    if "vllm:generation_tokens" not in totals:
        raise InfrastructureError("hold no vllm:generation_tokens", where=WHERE)
    return Snapshot(totals, positions, reasons, blocks, block_tokens)


def settled(
    endpoint: Endpoint, before: Snapshot, requests_done: int, *, patience: float = 5.0
) -> Snapshot:
    """A snapshot that counts ``requests_done`` requests finished since ``before``.

    The server answers a moment before it counts; after ``patience`` seconds the
    snapshot is returned as it is, for the caller to judge.
    """
    deadline = time.monotonic() + patience
    while True:
        after = scrape(endpoint)
        done = sum(finished(before, after).values())
        if done >= requests_done or time.monotonic() > deadline:
            return after
        time.sleep(0.1)


def counted(before: Snapshot, after: Snapshot, name: str) -> int:
    """How much a counter grew.

    Raises:
        InfrastructureError: It is missing, went down (the server was restarted), or
            is no whole number.
    """
    for snapshot in (before, after):
        if name not in snapshot.totals:
            raise InfrastructureError(f"hold no {name}", where=WHERE)
    return _grown(before.totals[name], after.totals[name], name)


def finished(before: Snapshot, after: Snapshot) -> dict[str, int]:
    """Requests finished in between, by reason; reasons without any are left out."""
    reasons = {
        reason: _grown(before.by_reason.get(reason, 0), value, f"requests ({reason})")
        for reason, value in after.by_reason.items()
    }
    return {reason: count for reason, count in reasons.items() if count}


def drafts(before: Snapshot, after: Snapshot) -> DraftCounts | None:
    """Draft counts in between; None if the server has no such counters.

    Raises:
        InfrastructureError: Counters are missing, fractional or contradict each other
            (with several engines some releases undercount the positions).
    """
    if not after.speculates:
        return None
    if after.by_position.keys() != before.by_position.keys():
        raise InfrastructureError(
            "count other draft positions than before", where=WHERE
        )
    try:
        return DraftCounts(
            drafts=counted(before, after, f"{_SPECULATION}drafts"),
            draft_tokens=counted(before, after, f"{_SPECULATION}draft_tokens"),
            accepted_tokens=counted(before, after, f"{_SPECULATION}accepted_tokens"),
            accepted_by_position=tuple(
                _grown(before.by_position[p], after.by_position[p], f"position {p}")
                for p in sorted(after.by_position)
            ),
        )
    except ValidationError as error:
        problem = error.errors()[0]
        field_name = ".".join(str(part) for part in problem["loc"])
        message = f"{field_name}: {problem['msg']}" if field_name else problem["msg"]
        raise InfrastructureError(
            f"draft counters contradict: {message}", where=WHERE
        ) from error


def require_drafts(before: Snapshot, after: Snapshot, positions: int) -> DraftCounts:
    """Like :func:`drafts` on a server that must speculate with ``positions`` tokens."""
    found = drafts(before, after)
    if found is None:
        raise InfrastructureError(
            "hold no draft counters, but the server was started with speculation",
            where=WHERE,
        )
    if len(found.accepted_by_position) != positions:
        raise InfrastructureError(
            f"count {len(found.accepted_by_position)} draft positions, the server was "
            f"started with {positions}",
            where=WHERE,
        )
    return found


def check_prefix_cache(before: Snapshot, after: Snapshot) -> None:
    """Raise InfrastructureError if the prefix cache served prompts in between."""
    hits = counted(before, after, "vllm:prefix_cache_hits")
    prompt = counted(before, after, "vllm:prompt_tokens")
    if hits > _MAX_PREFIX_HITS * prompt:
        raise InfrastructureError(
            f"{hits} of {prompt} prompt tokens came from the prefix cache: its speed "
            "would be measured",
            where=WHERE,
            fix="start the server with --no-enable-prefix-caching",
        )


def _grown(before: float, after: float, name: str) -> int:
    grown = after - before
    if grown < 0:
        raise InfrastructureError(
            f"{name} went down from {before:g} to {after:g}: another server?",
            where=WHERE,
        )
    if grown != int(grown):
        raise InfrastructureError(f"{name} grew by {grown}", where=WHERE)
    return int(grown)


def _integer(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
