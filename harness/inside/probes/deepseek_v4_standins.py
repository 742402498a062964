# SPDX-License-Identifier: Apache-2.0
"""What the DeepSeek V4 model classes of amd, nvidia and xpu need replaced on a CPU."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import torch

from harness.inside.standins import StandIn

_ROOT = "vllm.models.deepseek_v4"


class _Nothing:
    """A stream or an event where there is only one stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def record(self, *args: Any) -> None: ...

    def wait(self, *args: Any) -> None: ...

    def synchronize(self) -> None: ...


def _streams() -> None:
    torch.cuda.Stream = _Nothing
    torch.cuda.Event = _Nothing
    torch.xpu.Event = _Nothing


STREAMS = StandIn(
    name="streams",
    replaces="torch.cuda.Stream, torch.cuda.Event and torch.xpu.Event, by no-ops",
    reason="constructed without a device at amd/model.py:465, nvidia/model.py:988, "
    "attention.py:279 and xpu/xpu_sparse.py:52 (vllm/models/deepseek_v4)",
    install=_streams,
)


def _capability() -> None:
    from vllm.platforms import current_platform
    from vllm.platforms.interface import DeviceCapability

    type(current_platform).get_device_capability = classmethod(
        lambda cls, device_id=0: DeviceCapability(9, 0)
    )


CAPABILITY = StandIn(
    name="device-capability",
    replaces="the platform's device capability, by (9, 0)",
    reason="vllm/models/deepseek_v4/nvidia/ops/o_proj.py:22 asserts that there is one",
    install=_capability,
)


_head_watchers: list[list[torch.Tensor]] = []


@contextlib.contextmanager
def watch_head() -> Iterator[list[torch.Tensor]]:
    """Collect what is handed to the head: the residual streams before it."""
    seen: list[torch.Tensor] = []
    _head_watchers.append(seen)
    try:
        yield seen
    finally:
        _head_watchers.remove(seen)


def hc_head(
    hidden_states: torch.Tensor,
    fn: torch.Tensor,
    scale: torch.Tensor,
    base: torch.Tensor,
    norm_eps: float,
    hc_eps: float,
) -> torch.Tensor:
    """Gates from the RMS-normalised residual streams; their weighted sum.

    The formula of ``vllm/model_executor/kernels/mhc/triton.py:108``, in torch.
    ``hidden_states`` is (tokens, hc_mult, hidden); returns (tokens, hidden).
    """
    for seen in _head_watchers:
        seen.append(hidden_states)
    flat = hidden_states.flatten(-2).float()
    normed = flat * torch.rsqrt(flat.pow(2).mean(-1, keepdim=True) + norm_eps)
    gates = torch.sigmoid(normed @ fn.T * scale + base) + hc_eps
    mixed = (gates.unsqueeze(-1) * hidden_states.float()).sum(-2)
    return mixed.to(hidden_states.dtype)


def _hc_head_op() -> None:
    from vllm.model_executor.layers.mhc import HCHeadOp

    HCHeadOp.forward_native = lambda self, *args: hc_head(*args)


HC_HEAD = StandIn(
    name="hc-head",
    replaces="HCHeadOp.forward_native, by the Triton kernel's formula in torch",
    reason="vllm/model_executor/layers/mhc.py:353 raises NotImplementedError",
    install=_hc_head_op,
)


def _normed(x: torch.Tensor, weight: Any, eps: float) -> torch.Tensor:
    if weight is None:
        return x
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * weight.float()).to(x.dtype)


def _pre(
    residual: torch.Tensor, *args: Any, norm_weight: Any = None, norm_eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    from vllm.model_executor.kernels.mhc.torch import mhc_pre_torch

    post, comb, x = mhc_pre_torch(residual, *args)
    return post, comb, _normed(x, norm_weight, norm_eps)


def _pre_broadcast(
    x: torch.Tensor, fn: torch.Tensor, *args: Any, fn_broadcast: Any, **norm: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    streams = fn.shape[1] // x.shape[-1]
    residual = x.unsqueeze(-2).repeat(1, streams, 1)
    return (residual, *_pre(residual, fn, *args, **norm))


def _fused_post_pre(
    x: torch.Tensor,
    residual: torch.Tensor,
    post: torch.Tensor,
    comb: torch.Tensor,
    *args: Any,
    n_splits: int = 1,
    tile_n: int = 1,
    **norm: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    from vllm.model_executor.kernels.mhc.torch import mhc_post_torch

    current = mhc_post_torch(x, residual, post, comb)
    return (current, *_pre(current, *args, **norm))


def _tilelang() -> None:
    from vllm.model_executor.kernels.mhc.torch import mhc_post_torch

    module: Any = importlib.import_module(f"{_ROOT}.nvidia.model")
    module.mhc_pre_tilelang = _pre
    module.mhc_pre_broadcast_tilelang = _pre_broadcast
    module.mhc_fused_post_pre_tilelang = _fused_post_pre
    module.mhc_post_tilelang = mhc_post_torch
    module.hc_head_fused_kernel_tilelang = hc_head


TILELANG = StandIn(
    name="tilelang-mhc",
    replaces="the tilelang mHC kernels that nvidia/model.py imports, by vLLM's own "
    "mhc_*_torch functions (with the fused norm) and hc-head's formula",
    reason="tilelang compiles for GPUs only; called at "
    "vllm/models/deepseek_v4/nvidia/model.py:853-935 and :1137",
    install=_tilelang,
)


def _attention_forward(
    self: Any,
    positions: torch.Tensor,
    hidden_states: torch.Tensor,
    llama_4_scaling: Any = None,
) -> torch.Tensor:
    wave = torch.sin(positions.float() * 0.1 + 1.0).unsqueeze(-1)
    return (hidden_states.float() * 0.5 + wave).to(hidden_states.dtype)


def _moe_forward(self: Any, hidden_states: torch.Tensor, input_ids: Any = None) -> Any:
    return torch.tanh(hidden_states.float() * 0.7).to(hidden_states.dtype)


def _forwards() -> None:
    from vllm.models.deepseek_v4.attention import DeepseekV4Attention

    DeepseekV4Attention.forward = _attention_forward
    for backend in ("amd", "nvidia", "xpu"):
        module: Any = importlib.import_module(f"{_ROOT}.{backend}.model")
        module.DeepseekV4MoE.forward = _moe_forward


FORWARDS = StandIn(
    name="attention-and-moe-forward",
    replaces="forward() of the (really constructed) attention and MoE layers, by cheap "
    "deterministic functions of the same shape",
    reason="fused GPU kernels: vllm/models/deepseek_v4/attention.py:346 onwards needs "
    "Triton, the routed experts a GPU backend",
    install=_forwards,
)


def needed(backend: str) -> tuple[StandIn, ...]:
    """The replacements that this backend's model class needs."""
    if backend == "nvidia":
        return (STREAMS, CAPABILITY, TILELANG, FORWARDS)
    return (STREAMS, HC_HEAD, FORWARDS)
