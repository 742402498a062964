# SPDX-License-Identifier: Apache-2.0
"""The DeepSeek V3.2 MTP model (deepseek_v32/nvidia/mtp.py): facts as ``mtp_layer``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from harness.inside.probes import mtp_layer, vllm_ranks
from harness.inside.probes.context import Context
from harness.inside.probes.mtp_layer_generic import draft_view
from harness.inside.standins import StandIn

_ROOT = "vllm.models.deepseek_v32.nvidia"
_FUSION = "vllm.compilation.passes.fusion.allreduce_rms_fusion"

OVERRIDES = {
    "architectures": ["DeepseekV32ForCausalLM"],
    "model_type": "deepseek_v32",
    "index_topk": 64,
    "index_n_heads": 4,
    "index_head_dim": 128,
}


def warm() -> None:
    import vllm.engine.arg_utils
    import vllm.model_executor.model_loader.utils
    import vllm.v1.attention.backends.cpu_attn  # noqa: F401

    # See FUSION: None makes the import an ImportError, which the caller expects.
    modules: dict[str, Any] = sys.modules
    modules[_FUSION] = None
    importlib.import_module(f"{_ROOT}.mtp")
    del modules[_FUSION]


def _nothing() -> None: ...


FUSION = StandIn(
    name="no-allreduce-rms-fusion",
    replaces="the import of the all-reduce + RMSNorm fusion pass, by an ImportError",
    reason="fused_allreduce_gemma_rms_norm.py guards that import against ImportError "
    "only; without GPU operators it is an AttributeError "
    "(compilation/passes/fusion/rms_quant_fusion.py:121)",
    install=_nothing,
)


def fused_eh_norm(
    positions: torch.Tensor,
    inputs_embeds: torch.Tensor,
    previous_hidden: torch.Tensor,
    enorm_weight: torch.Tensor,
    hnorm_weight: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """[RMSNorm(embeddings, zeroed at position 0), RMSNorm(previous)], (n, 2H).

    The formula of ``deepseek_v32/nvidia/kernels.py:868`` in float32.
    """

    def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        return wide * weight.float()

    embeds = torch.where(positions.unsqueeze(-1) == 0, 0, inputs_embeds)
    both = [normed(embeds, enorm_weight), normed(previous_hidden, hnorm_weight)]
    return torch.cat(both, dim=-1).to(inputs_embeds.dtype)


def _install_eh_norm() -> None:
    module: Any = importlib.import_module(f"{_ROOT}.mtp")
    module.fused_eh_norm = fused_eh_norm


EH_NORM = StandIn(
    name="fused-eh-norm",
    replaces="the Triton kernel fused_eh_norm, by its formula in torch",
    reason="Triton needs a GPU (deepseek_v32/nvidia/kernels.py:868), and its "
    "interpreter computes bfloat16 on raw bits",
    install=_install_eh_norm,
)


def _dense_attention(
    vllm_config: Any, config: Any, prefix: str, topk_indices_buffer: Any
) -> Any:
    from vllm.model_executor.models.deepseek_v2 import DeepseekV2Attention

    return DeepseekV2Attention(
        vllm_config=vllm_config,
        config=config,
        hidden_size=config.hidden_size,
        num_heads=config.num_attention_heads,
        qk_nope_head_dim=config.qk_nope_head_dim,
        qk_rope_head_dim=config.qk_rope_head_dim,
        v_head_dim=config.v_head_dim,
        q_lora_rank=config.q_lora_rank,
        kv_lora_rank=config.kv_lora_rank,
        max_position_embeddings=config.max_position_embeddings,
        cache_config=vllm_config.cache_config,
        quant_config=vllm_config.quant_config,
        reduce_results=False,
        prefix=prefix,
    )


class _Attention:
    """Calls of the layer's attention, in the dense attention's signature."""

    def __new__(cls, **kwargs: Any) -> Any:
        attention = _dense_attention(**kwargs)
        original = attention.forward
        attention.forward = lambda positions, hidden_states: original(
            positions, hidden_states, None
        )
        return attention


def _install_attention() -> None:
    module: Any = importlib.import_module(f"{_ROOT}.model")
    module.DeepseekV32Attention = _Attention


ATTENTION = StandIn(
    name="dense-attention",
    replaces="the sparse MLA attention, by vLLM's dense DeepseekV2Attention with "
    "reduce_results=False; the indexer and the fp8 cache are not covered",
    reason="platforms/cpu.py:84 and :86 refuse MLA and sparse attention",
    install=_install_attention,
)


def run(context: Context) -> None:
    context.use(vllm_ranks.INSPECT_IN_PROCESS, FUSION, EH_NORM, ATTENTION)
    config = mtp_layer.build_config(context, OVERRIDES)
    model = importlib.import_module(f"{_ROOT}.mtp").DeepseekV32MTP
    mtp_layer.run_model(context, draft_view(config), model)
