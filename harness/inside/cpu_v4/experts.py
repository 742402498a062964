# SPDX-License-Identifier: Apache-2.0
"""The routed experts of DeepSeek V4 in torch, behind the tree's own router."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def choose(
    logits: torch.Tensor,
    k: int,
    *,
    renormalize: bool,
    bias: torch.Tensor | None,
    tokens: torch.Tensor | None,
    table: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Experts of each token and their weights.

    The score of an expert is sqrt(softplus(logit)). The bias only selects; with a
    table a token's experts are those of its row, whatever the scores.

    Args:
        logits: [tokens, experts].
        bias: [experts], or None.
        tokens: [tokens] token ids, needed with ``table`` [vocabulary, k].

    Returns:
        Weights [tokens, k] in float32 and ids [tokens, k].
    """
    scores = F.softplus(logits.float()).sqrt()
    if table is not None and tokens is not None:
        ids = table[tokens.long()].long()
    else:
        chosen = scores if bias is None else scores + bias
        # A stable sort: equal scores are taken in the same order on every tree.
        ids = chosen.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    weights = scores.gather(1, ids)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights * scale, ids


def experts(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    limit: float | None,
) -> torch.Tensor:
    """The weighted sum of each token's experts.

    An expert is w2 (silu(min(gate, limit)) * clamp(up, -limit, limit)), gate and up
    the two halves of w13 x; computed in float32.

    Args:
        x: [tokens, hidden].
        w13: [experts, 2 * intermediate, hidden].
        w2: [experts, hidden, intermediate].
        weights: [tokens, k].
        ids: [tokens, k].
    """
    wide = x.float()
    total = torch.zeros_like(wide)
    for expert in ids.unique().tolist():
        rows, places = (ids == expert).nonzero(as_tuple=True)
        gate, up = (wide[rows] @ w13[expert].float().T).chunk(2, dim=-1)
        if limit is not None:
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        out = (F.silu(gate) * up) @ w2[expert].float().T
        total.index_add_(0, rows, out * weights[rows, places].float().unsqueeze(1))
    return total.to(x.dtype)


def install_router() -> None:
    from vllm.model_executor.layers.fused_moe.router import fused_topk_bias_router

    module: Any = fused_topk_bias_router
    module.vllm_topk_softplus_sqrt = _router_operator
    module.can_use_dsv4_topk = lambda *args: False


def _router_operator(
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    token_expert_indices: torch.Tensor,
    logits: torch.Tensor,
    renormalize: bool,
    bias: torch.Tensor | None,
    tokens: torch.Tensor | None,
    table: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """In the signature of vLLM's wrapper of the CUDA operator."""
    weights, ids = choose(
        logits,
        topk_ids.shape[1],
        renormalize=renormalize,
        bias=bias,
        tokens=tokens,
        table=table,
        scale=scale,
    )
    return weights, ids.to(topk_ids.dtype)


def install_experts() -> None:
    from vllm.model_executor.layers.fused_moe import unquantized_fused_moe_method

    method: Any = unquantized_fused_moe_method.UnquantizedFusedMoEMethod
    # Else the router is passed over: the CPU's monolithic path has one of its own.
    method.is_monolithic = property(lambda self: False)
    method.process_weights_after_loading = lambda self, layer: None
    method.apply = _apply


def _apply(
    self: Any,
    layer: Any,
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    shared_experts: Any,
    shared_experts_input: Any,
) -> torch.Tensor:
    return experts(
        x, layer.w13_weight, layer.w2_weight, topk_weights, topk_ids, layer.swiglu_limit
    )
