# SPDX-License-Identifier: Apache-2.0
"""Acceptance of drafts on real questions, counted by the server batch by batch."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from harness.errors import InfrastructureError
from harness.measure import metrics
from harness.models.endpoint import Endpoint
from harness.models.facts import AcceptanceFacts, DraftCounts, QuestionSource
from harness.models.profile import AcceptanceCell

Heartbeat = Callable[[], None]


def measure(
    endpoint: Endpoint,
    cell: AcceptanceCell,
    prompts: Sequence[str],
    source: QuestionSource,
    *,
    positions: int,
    request_timeout: float,
    heartbeat: Heartbeat | None = None,
) -> AcceptanceFacts:
    """Ask greedily for completions, one batch after the other.

    Args:
        prompts: In the order of asking; a last batch may be smaller.
        positions: Draft tokens per step that the server was started with.
        heartbeat: Called after every batch; may raise.

    Raises:
        InfrastructureError: A request failed or ended for an unplanned reason, or the
            counters contradict each other.
    """
    began = time.monotonic()
    counts: list[DraftCounts] = []
    generated = 0
    before = metrics.scrape(endpoint)
    with ThreadPoolExecutor(cell.batch) as pool:
        for start in range(0, len(prompts), cell.batch):
            batch = prompts[start : start + cell.batch]
            asked = [
                pool.submit(_complete, endpoint, cell, prompt, request_timeout)
                for prompt in batch
            ]
            tokens = sum(future.result() for future in asked)
            after = metrics.settled(endpoint, before, len(batch))
            _check_only_ours(before, after, len(batch), tokens)
            counts.append(metrics.require_drafts(before, after, positions))
            generated += tokens
            before = after
            if heartbeat is not None:
                heartbeat()
    return AcceptanceFacts(
        cell=cell.name,
        source=source,
        prompts=len(prompts),
        prompts_sha256=_hash(prompts, cell),
        output_tokens=generated,
        batches=tuple(counts),
        seconds=time.monotonic() - began,
    )


def _complete(
    endpoint: Endpoint, cell: AcceptanceCell, prompt: str, timeout: float
) -> int:
    """Ask for one completion; the number of its tokens."""
    body: dict[str, Any] = {
        "model": endpoint.model,
        "prompt": prompt,
        "max_tokens": cell.output_tokens,
        "temperature": 0,
        "seed": 0,
        "ignore_eos": not cell.stop_token_ids,
        "stop_token_ids": list(cell.stop_token_ids),
    }
    where = f"acceptance cell {cell.name}"
    try:
        answer = requests.post(
            endpoint.completions, json=body, headers=endpoint.headers, timeout=timeout
        )
    except requests.RequestException as error:
        raise InfrastructureError(f"a request failed: {error}", where=where) from error
    if answer.status_code != 200:
        raise InfrastructureError(
            f"a request got HTTP {answer.status_code}: {answer.text[:200]}", where=where
        )
    try:
        content = answer.json()
        reason = content["choices"][0]["finish_reason"]
        tokens = int(content["usage"]["completion_tokens"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InfrastructureError(
            f"no completion: {answer.text[:200]}", where=where
        ) from error
    whole = tokens == cell.output_tokens and reason == "length"
    stopped = bool(cell.stop_token_ids) and reason == "stop" and tokens > 0
    if not (whole or stopped):
        raise InfrastructureError(
            f"a completion ended after {tokens} tokens ({reason})", where=where
        )
    return tokens


def _check_only_ours(
    before: metrics.Snapshot, after: metrics.Snapshot, asked: int, tokens: int
) -> None:
    """Counters around a batch mean that batch only if nobody else asked."""
    done = sum(metrics.finished(before, after).values())
    counted = metrics.counted(before, after, "vllm:generation_tokens")
    if (done, counted) != (asked, tokens):
        raise InfrastructureError(
            f"count {done} requests and {counted} tokens, the batch had {asked} and "
            f"{tokens}",
            where=metrics.WHERE,
        )


def _hash(prompts: Sequence[str], cell: AcceptanceCell) -> str:
    content = json.dumps([cell.model_dump(mode="json"), list(prompts)])
    return hashlib.sha256(content.encode()).hexdigest()
