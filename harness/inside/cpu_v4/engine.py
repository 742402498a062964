# SPDX-License-Identifier: Apache-2.0
"""What vLLM's CPU engine does otherwise than a device's, and V4 relies on."""

from __future__ import annotations

import functools
from typing import Any


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
    import torch
    from vllm.model_executor.layers import utils

    def plain(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = plain
