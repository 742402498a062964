# SPDX-License-Identifier: Apache-2.0
"""Warm a server up: the shapes and the concurrency to be measured, other prompts.

``vllm bench serve --num-warmups`` repeats the first measured prompt, so one shape is
warm and one prompt is cached; these prompts differ from each other and from all that
are measured.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import requests

from harness.errors import InfrastructureError
from harness.models.endpoint import Endpoint
from harness.models.profile import ServingCell

_LOWEST_TOKEN, _HIGHEST_TOKEN = 10, 120
"""Token ids that every vocabulary has."""

_SALT = 0x5EED
"""Keeps the warm-up's prompts apart from a benchmark's of the same seed."""


def warm_up(
    endpoint: Endpoint, cell: ServingCell, *, seed: int, request_timeout: float
) -> int:
    """Send two rounds of prompts of the cell's lengths at its concurrency.

    Returns:
        The number of requests.

    Raises:
        InfrastructureError: A request failed or came back short.
    """
    noise = random.Random(seed ^ _SALT)
    prompts = [
        [noise.randint(_LOWEST_TOKEN, _HIGHEST_TOKEN) for _ in range(cell.input_tokens)]
        for _ in range(2 * cell.concurrency)
    ]
    with ThreadPoolExecutor(cell.concurrency) as pool:
        asked = [
            pool.submit(_complete, endpoint, cell, prompt, request_timeout)
            for prompt in prompts
        ]
        for future in asked:
            future.result()
    return len(prompts)


def _complete(
    endpoint: Endpoint, cell: ServingCell, prompt: list[int], timeout: float
) -> None:
    body = {
        "model": endpoint.model,
        "prompt": prompt,
        "max_tokens": cell.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    where = f"warm-up of {cell.name}"
    try:
        answer = requests.post(
            endpoint.completions, json=body, headers=endpoint.headers, timeout=timeout
        )
        answer.raise_for_status()
        tokens = answer.json()["usage"]["completion_tokens"]
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(f"a request failed: {error}", where=where) from error
    if tokens != cell.output_tokens:
        raise InfrastructureError(
            f"a request came back with {tokens} tokens, {cell.output_tokens} asked",
            where=where,
        )
