# SPDX-License-Identifier: Apache-2.0
"""DeepSeek V4 compiled by vLLM, run after run with one shared compile cache.

Parameters of a scenario: ``backend``, ``methods`` (speculative methods, one process
each, in this order, all with the same fresh cache folder), ``tokens`` (one number) and
``seconds`` (limit of one process).
Facts of the i-th process, named ``<i>-<method>/...``:

- ``ended``: ``ok``, or the class of the exception, or the signal that ended it;
- ``loaded_from_cache``: whether it ran code that an earlier process had compiled;
- ``buffer.bytes``; ``rows``: tokens; ``rows_written``: rows of the buffer that the
  forward wrote, null if there is no buffer;
- ``output``, see :mod:`harness.inside.probes.digests`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness.inside.probes import children, deepseek_v4_buffer, vllm_ranks
from harness.inside.probes import deepseek_v4_standins as standins
from harness.inside.probes.context import Context
from harness.inside.standins import StandIn

TRACED = False
"""Dynamo compiles nothing while Python is traced."""

UNWRITTEN = 7.0

FORCED = StandIn(
    name="compilation-forced",
    replaces="the CPU platform's compilation mode, by VLLM_COMPILE",
    reason="platforms/cpu.py:161 falls back to tracing once, without vLLM's cache",
    install=lambda: None,
)

UNFUSED = {"fallback_by_default": True, "selective_decompose": True}
"""Inductor's options to call each operator as it is: the graph is traced, split, cached
and loaded as ever, but no C++ is compiled, which takes minutes and a compiler."""

ENVIRONMENT = {
    # Breakable CUDA graphs would switch compilation off (config/vllm.py:1202).
    "VLLM_USE_BREAKABLE_CUDAGRAPH": "0",
    "VLLM_DISABLE_COMPILE_CACHE": "0",
}

warm = deepseek_v4_buffer.warm


def run(context: Context) -> None:
    cache = context.folder / "cache"
    for number, method in enumerate(context.parameters["methods"], start=1):
        name = f"{number}-{method or 'off'}"
        part = replace(
            context,
            parameters={**context.parameters, "method": method},
            facts={},
            standins={},
        )
        ended = _in_process(part, context.folder / name, str(cache))
        context.standins.update(part.standins)
        for fact, value in part.facts.items():
            context.fact(f"{name}/{fact}", value)
        context.fact(f"{name}/ended", ended)


def _in_process(part: Context, folder: Path, cache: str) -> str:
    """Run ``part`` in a process of its own; returns how that ended.

    The model's folder is the same for all: its path is part of vLLM's cache key.
    """
    seconds = part.parameters["seconds"]

    def work() -> None:
        os.environ.update(ENVIRONMENT, VLLM_CACHE_ROOT=cache)
        forward(part)

    child = children.start(
        work,
        lambda: {"facts": part.facts, "standins": part.standins},
        folder,
        seconds,
    )
    ((outcome, value),) = children.wait([child])
    part.facts.update((value or {}).get("facts", {}))
    part.standins.update((value or {}).get("standins", {}))
    if outcome["kind"] == "timeout":
        raise TimeoutError(f"{folder.name} took longer than {seconds} s")
    return str(outcome.get("type") or outcome.get("signal") or outcome["kind"])


def forward(context: Context) -> None:
    """Build the model, compile or load its forward, run it once."""
    parameters: dict[str, Any] = {
        **context.parameters,
        "pipeline": 1,
        "enforce_eager": False,
        "engine": {
            "compilation_config": {"mode": 3, "inductor_compile_config": UNFUSED},
            # With it on, mtp runs asynchronously and ngram can't, and a flag that
            # follows from that (parallel_config.disable_nccl_for_dp_synchronization)
            # is in the key as well: then these two differ by accident.
            "async_scheduling": False,
        },
    }
    context.use(
        vllm_ranks.INSPECT_IN_PROCESS, *standins.needed(parameters["backend"]), FORCED
    )
    scratch = replace(context, facts={})
    config = deepseek_v4_buffer.build_config(scratch, parameters)
    _force(config)
    count = parameters["tokens"]
    init_method = f"tcp://127.0.0.1:{context.port}"
    with vllm_ranks.parallel_state(config, 0, 1, init_method):
        model = deepseek_v4_buffer.build(replace(scratch, facts={}), config)
        buffer = model.get_mtp_target_hidden_states()
        size = 0 if buffer is None else buffer.numel() * buffer.element_size()
        context.fact("buffer.bytes", size)
        context.fact("rows", count)
        if buffer is not None:
            buffer.fill_(UNWRITTEN)
        output = _call(config, model, count)
        context.fact(
            "loaded_from_cache", bool(model.model.was_aot_compile_fn_loaded_from_disk)
        )
        written = None
        if buffer is not None:
            written = int((buffer != UNWRITTEN).any(dim=1).sum())
        context.fact("rows_written", written)
        context.tensor("output", output)


def _force(config: Any) -> None:
    from vllm.config import CompilationMode

    compilation = config.compilation_config
    compilation.mode = CompilationMode.VLLM_COMPILE
    compilation.backend = "inductor"
    # The engine sets this after the platform's word; without it no shape is found.
    compilation.compile_sizes = []


def _call(config: Any, model: Any, count: int) -> torch.Tensor:
    from vllm.forward_context import set_forward_context

    generator = torch.Generator().manual_seed(count)
    ids = torch.randint(0, 256, (count,), generator=generator)
    with torch.inference_mode(), set_forward_context(None, config, num_tokens=count):
        output: torch.Tensor = model(ids, torch.arange(count), None)
    return output
