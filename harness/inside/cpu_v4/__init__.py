# SPDX-License-Identifier: Apache-2.0
"""What vLLM's CPU backend lacks to serve DeepSeek V4's classes for AMD and Intel GPUs.

A general plugin of vLLM, loaded for measuring only; HARNESS_V4_BACKEND names the
backend, ``amd`` or ``xpu``. Each missing thing is one stand-in of :data:`STAND_INS`,
put in place when the module it changes is imported. The model, its decoder layers,
their attention with its caches and kernels, and the draft are the tree's own; Triton's
kernels run in its interpreter.

The implementations are in the modules beside this one, which need torch; this one does
not, so that a report can name the stand-ins wherever it is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from harness.inside.on_import import Names, when_imported, while_importing
from harness.inside.standins import StandIn

BACKEND = "HARNESS_V4_BACKEND"
"""Environment variable: which backend's classes are served."""

BACKENDS = {"amd": "rocm", "xpu": "xpu"}
"""What kind of platform each backend's modules must find."""

_LAYERS = "vllm.model_executor.layers"
_MODELS = "vllm.models.deepseek_v4"
_MLA = "vllm.v1.attention.backends.mla"
_ROCM_OPERATORS = "vllm.v1.attention.ops.rocm_aiter_mla_sparse"
_COMPRESSOR_OPERATORS = f"{_MODELS}.common.ops.fused_compress_quant_cache"
_INDEXER = f"{_LAYERS}.sparse_attn_indexer"

TRITON_MODULES = (
    _MODELS,
    f"{_MLA}.sparse_swa",
    f"{_MLA}.sparse_utils",
    f"{_MLA}.compressor_utils",
    f"{_MLA}.indexer",
    _ROCM_OPERATORS,
    "vllm.v1.attention.ops.common",
    "vllm.v1.attention.ops.xpu_mla_sparse",
    "vllm.model_executor.kernels.mhc.triton",
)
"""Modules (and packages) whose kernels run in Triton's interpreter. All others see no
Triton, as always on a CPU: the engine's own kernels are vLLM's compiled ones."""

PLATFORM_MODULES = (_MODELS, f"{_MLA}.sparse_swa")
"""Modules (and packages) that choose by the kind of platform."""


def _within(*names: str) -> Callable[[str], bool]:
    return lambda module: any(
        module == name or module.startswith(f"{name}.") for name in names
    )


def _backend() -> str:
    backend = os.environ.get(BACKEND, "")
    if backend not in BACKENDS:
        raise ValueError(f"{BACKEND}={backend!r} is none of {', '.join(BACKENDS)}")
    return backend


def _interpret() -> None:
    import triton
    import triton.language as tl

    from harness.inside.cpu_v4 import interpreter, interpreter_speed

    interpreter.install()
    interpreter_speed.install()
    source = "vllm.triton_utils"
    names: Names = {
        (source, "triton"): triton,
        (source, "tl"): tl,
        (source, "HAS_TRITON"): True,
    }
    while_importing(_within(*TRITON_MODULES), names)


def _platform() -> None:
    from vllm.platforms import current_platform

    from harness.inside.cpu_v4.engine import SeenAs

    seen = SeenAs(current_platform, BACKENDS[_backend()])
    names: Names = {("vllm.platforms", "current_platform"): seen}
    while_importing(_within(*PLATFORM_MODULES), names)


def _streams() -> None:
    from harness.inside.cpu_v4 import attention

    attention.install_streams()


def _mm() -> None:
    from harness.inside.cpu_v4 import attention

    attention.install_mm()


def _qnorm() -> None:
    from harness.inside.cpu_v4 import attention

    attention.install_qnorm()


def _top_k_rocm() -> None:
    from harness.inside.cpu_v4 import attention

    attention.install_top_k(_ROCM_OPERATORS)


def _router() -> None:
    from harness.inside.cpu_v4 import experts

    experts.install_router()


def _experts() -> None:
    from harness.inside.cpu_v4 import experts

    experts.install_experts()


def _batched_tokens() -> None:
    from harness.inside.cpu_v4 import engine

    engine.install_batched_tokens()


def _workspace() -> None:
    from harness.inside.cpu_v4 import engine

    engine.install_workspace()


def _plain_linear() -> None:
    from harness.inside.cpu_v4 import engine

    engine.install_plain_linear()


def _expand() -> None:
    from harness.inside.cpu_v4 import engine

    engine.install_expand()


def _pause() -> None:
    from harness.inside.cpu_v4 import engine

    engine.install_pause()


def _rocm_indexer() -> None:
    from harness.inside.cpu_v4 import rocm

    rocm.install_indexer()


def _rocm_device() -> None:
    from harness.inside.cpu_v4 import rocm

    rocm.install_device()


def _compute_units() -> None:
    from harness.inside.cpu_v4 import rocm

    rocm.install_compute_units()


def _hc_head() -> None:
    from harness.inside.cpu_v4 import rocm

    rocm.install_hc_head(BACKENDS[_backend()])


@dataclass(frozen=True)
class Placed:
    """A stand-in and when it is put in place.

    ``module`` is what it changes; None: it changes what other modules find, and must be
    there before they are imported. ``backends`` need it.
    """

    stand_in: StandIn
    module: str | None
    backends: tuple[str, ...] = tuple(BACKENDS)


PLACED = (
    Placed(
        StandIn(
            name="triton-interpreter",
            replaces="compiled Triton kernels of DeepSeek V4's modules, by Triton's "
            "interpreter with bfloat16 and fp8 arithmetic corrected",
            reason="triton_utils/importing.py:60 switches Triton off on a CPU; the "
            "interpreter computes narrow types on their bits (triton/runtime/"
            "interpreter.py:489, :629)",
            install=_interpret,
        ),
        module=None,
    ),
    Placed(
        StandIn(
            name="seen-platform",
            replaces="the kind of platform, as DeepSeek V4's modules see it",
            reason="models/deepseek_v4/__init__.py:16 chooses the backend by it, "
            "compressor.py:42 and sparse_swa.py:124 what belongs to it",
            install=_platform,
        ),
        module=None,
    ),
    Placed(
        StandIn(
            name="streams",
            replaces="torch.cuda.Stream, torch.cuda.Event and torch.xpu.Event, by "
            "no-ops",
            reason="constructed without a device at models/deepseek_v4/attention.py:"
            "279 and :769 and xpu/xpu_sparse.py:52",
            install=_streams,
        ),
        module=f"{_MODELS}.attention",
    ),
    Placed(
        StandIn(
            name="mm-out-dtype",
            replaces="torch.mm with out_dtype, by the product in float32",
            reason="not implemented for CPU tensors; called at "
            "models/deepseek_v4/attention.py:391 and :409",
            install=_mm,
        ),
        module=f"{_MODELS}.attention",
    ),
    Placed(
        StandIn(
            name="qnorm-rope-insert",
            replaces="the fused operator that normalises and rotates queries and "
            "inserts keys, by torch and the tree's Triton kernel for the insertion",
            reason="a CUDA operator, called at models/deepseek_v4/attention.py:554",
            install=_qnorm,
        ),
        module=f"{_MODELS}.attention",
        backends=("amd",),
    ),
    Placed(
        StandIn(
            name="top-k-per-row",
            replaces="top_k_per_row_prefill and top_k_per_row_decode, by torch",
            reason="CUDA operators, called at v1/attention/ops/"
            "rocm_aiter_mla_sparse.py:783 and :832",
            install=_top_k_rocm,
        ),
        module=_ROCM_OPERATORS,
    ),
    Placed(
        StandIn(
            name="rocm-indexer",
            replaces="the choice of the indexer's operator, by the one for ROCm",
            reason="sparse_attn_indexer.py:768 asks for a device and for AITER; the "
            "operator for XPU needs compiled kernels (:331 and :578)",
            install=_rocm_indexer,
        ),
        module=_INDEXER,
    ),
    Placed(
        StandIn(
            name="rocm-attention-device",
            replaces="the checks that tensors are on a GPU, and the paged indexer "
            "logits of several tokens per request, by the same function token by token",
            reason="rocm_aiter_mla_sparse.py:1850 and :2050; with next_n > 1 its torch "
            "reference (:311) takes an int32 tensor apart as if it had a scale",
            install=_rocm_device,
        ),
        module=_ROCM_OPERATORS,
    ),
    Placed(
        StandIn(
            name="compute-units",
            replaces="the number of a GPU's compute units that the two-stage "
            "compressor splits its work by, by one",
            reason="models/deepseek_v4/common/ops/fused_compress_quant_cache.py:312 "
            "asks CUDA for it",
            install=_compute_units,
        ),
        module=_COMPRESSOR_OPERATORS,
        backends=("amd",),
    ),
    Placed(
        StandIn(
            name="hc-head",
            replaces="HCHeadOp.forward_native, by the class's own method for the "
            "backend's device",
            reason="model_executor/layers/mhc.py:353 raises NotImplementedError",
            install=_hc_head,
        ),
        module=f"{_LAYERS}.mhc",
    ),
    Placed(
        StandIn(
            name="router",
            replaces="the sqrt-softplus top-k operator, by torch",
            reason="a CUDA operator, called at model_executor/layers/fused_moe/router/"
            "fused_topk_bias_router.py:243",
            install=_router,
        ),
        module=f"{_LAYERS}.fused_moe.router.fused_topk_bias_router",
    ),
    Placed(
        StandIn(
            name="experts",
            replaces="the CPU's expert kernels, by torch behind the tree's own router",
            reason="they have a router of their own that knows no sqrt-softplus "
            "(cpu_fused_moe.py:150), no hash table and no clamp",
            install=_experts,
        ),
        module=f"{_LAYERS}.fused_moe.unquantized_fused_moe_method",
    ),
    Placed(
        StandIn(
            name="batched-tokens",
            replaces="max_num_batched_tokens of an MLA model, by what was asked for",
            reason="platforms/cpu.py:323 raises it to 2048",
            install=_batched_tokens,
        ),
        module="vllm.platforms.cpu",
    ),
    Placed(
        StandIn(
            name="workspace",
            replaces="nothing: the CPU worker makes the workspace that others make",
            reason="v1/worker/gpu_worker.py:399 makes it, v1/worker/cpu_worker.py "
            "overrides that method",
            install=_workspace,
        ),
        module="vllm.v1.worker.cpu_worker",
    ),
    Placed(
        StandIn(
            name="plain-linear",
            replaces="linear layers with packed weights, by torch's linear",
            reason="model_executor/layers/utils.py:228 removes the weights that "
            "models/deepseek_v4/attention.py:391 and rocm_aiter_mla_sparse.py:990 read",
            install=_plain_linear,
        ),
        module=f"{_LAYERS}.utils",
    ),
    Placed(
        StandIn(
            name="expand-kernel",
            replaces="the rejection sampler's expand_kernel, by torch",
            reason="utils/cpu_triton_utils.py:417 has a copy filled: a sampled "
            "request's temperature for its drafts is uninitialised memory, so that "
            "equal requests differ (vllm-project/vllm#55005)",
            install=_expand,
        ),
        module="vllm.utils.cpu_triton_utils",
    ),
    Placed(
        StandIn(
            name="pause",
            replaces="sched_yield between two looks for a message of another process, "
            "by a millisecond's sleep",
            reason="distributed/device_communicators/shm_broadcast.py:196: while an "
            "interpreted forward runs, the engine would keep the other core busy",
            install=_pause,
        ),
        module="vllm.distributed.device_communicators.shm_broadcast",
    ),
)

STAND_INS = {placed.stand_in.name: placed.stand_in for placed in PLACED}
"""All of them, by name."""


def main() -> None:
    """The plugin's entry."""
    backend = _backend()
    for placed in PLACED:
        if backend not in placed.backends:
            continue
        if placed.module is None:
            placed.stand_in.activate()
        else:
            when_imported(placed.module, placed.stand_in.activate)
