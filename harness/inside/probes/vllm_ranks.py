# SPDX-License-Identifier: Apache-2.0
"""vLLM's own configuration and parallel state, set up for one rank of a probe."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from harness.inside.standins import StandIn

ENVIRONMENT = {
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Everything stays on this host."""


def _inspect_in_this_process() -> None:
    import vllm.model_executor.models.registry as registry

    registry._run_in_subprocess = lambda function: function()


INSPECT_IN_PROCESS = StandIn(
    name="registry-in-process",
    replaces="the subprocess that the model registry inspects a class in, by a call",
    reason="the subprocess exists to keep CUDA uninitialised (model_executor/models/"
    "registry.py:977) and costs an import of vLLM per architecture",
    install=_inspect_in_this_process,
)


def model_folder(folder: Path, name: str, config: dict[str, Any]) -> str:
    """Write ``config`` as a model's config.json; returns the model's folder.

    Ranks that share ``folder`` may write at the same time.
    """
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    part = target / f".config-{os.getpid()}"
    part.write_text(json.dumps(config))
    part.replace(target / "config.json")
    return str(target)


@contextlib.contextmanager
def parallel_state(
    vllm_config: Any, rank: int, ranks: int, init_method: str
) -> Iterator[None]:
    """vLLM's process groups for this rank on gloo, torn down at the end.

    Args:
        vllm_config: The real VllmConfig; its tensor and pipeline sizes are used.
        rank: This process within one data-parallel replica.
        ranks: Processes of one data-parallel replica.
        init_method: Rendezvous, as torch.distributed takes it.
    """
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state as state

    os.environ.update(ENVIRONMENT)
    # The CPU communicator names its shared memory after this when ranks > 1.
    os.environ["VLLM_DIST_IDENT"] = init_method.rsplit(":", 1)[-1].replace("/", "_")
    torch.set_num_threads(1)
    parallel = vllm_config.parallel_config
    with set_current_vllm_config(vllm_config):
        state.init_distributed_environment(
            world_size=ranks,
            rank=rank,
            local_rank=rank,
            distributed_init_method=init_method,
            backend="gloo",
        )
        state.ensure_model_parallel_initialized(
            parallel.tensor_parallel_size, parallel.pipeline_parallel_size
        )
        try:
            yield
        finally:
            state.destroy_model_parallel()
            state.destroy_distributed_environment()


def fill(module: torch.nn.Module, scale: float = 0.05) -> None:
    """Seed every floating-point parameter by its name, the same on every tree."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not parameter.is_floating_point():
                continue
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            values = torch.randn(parameter.shape, generator=generator) * scale
            if name.endswith("norm.weight"):
                values += 1.0
            parameter.copy_(values)
