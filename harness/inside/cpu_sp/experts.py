# SPDX-License-Identifier: Apache-2.0
"""The expert map for vLLM's CPU experts.

With expert parallelism a rank holds some experts only. The layer's ``expert_map`` gives
each expert's number on this rank, or -1; vLLM's CPU layer ignores it. Here a kernel
gets one row per pair of token and local expert, and the weighted results are added up
per token. Giving experts of other ranks a weight of zero instead would run them all
through one local expert, and ``forward_torch`` counts an expert once per token, so it
would mistake the rows of a token that has two of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

Forward = Callable[..., torch.Tensor]

METHODS = ("forward_grouped_gemm", "forward_torch")
"""The two ways in which CPUFusedMOE computes, chosen by data type and machine."""


def with_expert_map(forward: Forward) -> Forward:
    """``forward`` for layers that hold some of the experts.

    Args:
        forward: Takes ``(self, layer, input, topk_weights, topk_ids, activation,
            global_num_experts, skip_weighted)``: input [T, H], weights and ids [T, K],
            where ids are numbers below the number of experts it is given.
    """

    @functools.wraps(forward)
    def mapped(
        self: Any,
        layer: Any,
        input: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        activation: Any,
        global_num_experts: int = -1,
        skip_weighted: bool = False,
    ) -> torch.Tensor:
        expert_map = layer.expert_map
        if expert_map is None:
            return forward(
                self,
                layer,
                input,
                topk_weights,
                topk_ids,
                activation,
                global_num_experts,
                skip_weighted,
            )
        numbers = expert_map[topk_ids.long()]
        tokens, places = (numbers >= 0).nonzero(as_tuple=True)
        output = torch.zeros_like(input)
        if tokens.numel() == 0:
            return output
        results = forward(
            self,
            layer,
            input[tokens],
            topk_weights[tokens, places].unsqueeze(1),
            numbers[tokens, places].unsqueeze(1).to(topk_ids.dtype),
            activation,
            int((expert_map >= 0).sum()),
            skip_weighted,
        )
        return output.index_add_(0, tokens, results)

    return mapped


def install() -> None:
    from vllm.model_executor.layers.fused_moe.cpu_fused_moe import CPUFusedMOE

    for name in METHODS:
        setattr(CPUFusedMOE, name, with_expert_map(getattr(CPUFusedMOE, name)))
