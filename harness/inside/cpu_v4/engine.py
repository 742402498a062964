# SPDX-License-Identifier: Apache-2.0
"""What vLLM's CPU engine does otherwise than a device's, and V4 relies on."""

from __future__ import annotations

import functools
import time
from typing import Any

import torch


class SeenAs:
    """The platform, but for the answer to what kind it is."""

    def __init__(self, platform: Any, kind: str) -> None:
        self._platform = platform
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        if name in ("is_cpu", "is_cuda", "is_rocm", "is_xpu"):
            return lambda: name == f"is_{self._kind}"
        return getattr(self._platform, name)


def install_batched_tokens() -> None:
    """Keep max_num_batched_tokens as it was asked for."""
    from vllm.platforms.cpu import CpuPlatform

    original = CpuPlatform.check_and_update_config

    def check_and_update_config(cls: Any, vllm_config: Any) -> None:
        asked = vllm_config.scheduler_config.max_num_batched_tokens
        original(vllm_config)
        vllm_config.scheduler_config.max_num_batched_tokens = asked

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)


def install_workspace() -> None:
    """Make the worker's workspace, as the workers of devices do."""
    from vllm.v1.worker.cpu_worker import CPUWorker

    original = CPUWorker.init_device

    @functools.wraps(original)
    def init_device(self: Any) -> None:
        from vllm.v1.worker.workspace import init_workspace_manager

        original(self)
        init_workspace_manager(self.device, 1)

    CPUWorker.init_device = init_device


def install_plain_linear() -> None:
    """Leave linear layers' weights where and as they are."""
    from vllm.model_executor.layers import utils

    def plain(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = plain


def expand(
    output: torch.Tensor,
    values: torch.Tensor,
    ends: torch.Tensor,
    replace_from: int,
    replace_to: int,
    MAX_NUM_TOKENS: int | None = None,
) -> None:
    """Each request's value for each of its draft tokens, in the kernel's signature.

    Args:
        output: [draft tokens] of the type of ``values``, written in place.
        values: [requests].
        ends: [requests]: draft tokens of a request and of those before it.
        replace_from: A value that is written as ``replace_to``.
    """
    counts = torch.diff(ends.long(), prepend=ends.new_zeros(1).long())
    replaced = torch.where(values == replace_from, replace_to, values)
    output[: int(ends[-1])] = torch.repeat_interleave(replaced, counts)


def install_expand() -> None:
    """Write what a sampled request asks for where the rejection sampler reads it."""
    from vllm.utils import cpu_triton_utils

    cpu_triton_utils.expand_kernel = cpu_triton_utils._FuncWrapper(expand)


_PAUSE = 0.001
"""Seconds; a step of interpreted kernels takes several hundred times as long."""


def install_pause() -> None:
    """Let a process that looks for another's message sleep between two looks."""
    from vllm.distributed.device_communicators import shm_broadcast

    shm_broadcast.sched_yield = functools.partial(time.sleep, _PAUSE)
