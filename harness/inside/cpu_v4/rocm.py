# SPDX-License-Identifier: Apache-2.0
"""What the ROCm side of DeepSeek V4 asks of a device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from harness.inside.cpu_v4.attention import decode_ends


def install_indexer() -> None:
    """Let the indexer's layer call its ROCm operator's function directly."""
    from vllm.model_executor.layers import sparse_attn_indexer

    layer: Any = sparse_attn_indexer.SparseAttnIndexer
    layer.forward_native = _indexer_forward


def _indexer_forward(
    self: Any, hidden_states: torch.Tensor, q: torch.Tensor, k: Any, weights: Any
) -> torch.Tensor:
    from vllm.v1.attention.ops import rocm_aiter_mla_sparse as operators

    found: torch.Tensor = operators.rocm_aiter_sparse_attn_indexer(
        hidden_states,
        self.k_cache.prefix,
        self.k_cache.kv_cache,
        q,
        k,
        weights,
        self.quant_block_size,
        self.scale_fmt,
        self.topk_tokens,
        self.head_dim,
        self.max_model_len,
        self.max_total_seq_len,
        self.topk_indices_buffer,
        skip_k_cache_insert=self.skip_k_cache_insert,
    )
    return found


class _OnDevice(torch.Tensor):
    """A tensor that says it is on no CPU."""

    is_cpu = False


def on_device(function: Callable[..., Any], names: tuple[str, ...]) -> Any:
    """``function``, whose tensors ``names`` say that they are on no CPU."""

    @functools.wraps(function)
    def called(**arguments: Any) -> Any:
        for name in names:
            arguments[name] = arguments[name].as_subclass(_OnDevice)
        with torch._C.DisableTorchFunctionSubclass():
            result: torch.Tensor = function(**arguments)
        return result.as_subclass(torch.Tensor)

    return called


def one_by_one(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The paged indexer logits, for requests with any number of query tokens.

    Each query token becomes a request of its own with one token, which is the case
    that the wrapped function computes.

    Args of the result:
        q: [requests, next_n, heads, dim].
        weights: [requests * next_n, heads].
        context_lens: [requests] for the last token of each, or [requests, next_n].
        block_tables: [requests, blocks].
    """

    @functools.wraps(function)
    def logits(
        q: torch.Tensor,
        kv_cache: torch.Tensor,
        weights: torch.Tensor,
        context_lens: torch.Tensor,
        block_tables: torch.Tensor,
        max_model_len: int,
    ) -> torch.Tensor:
        requests, next_n = q.shape[:2]
        if next_n == 1:
            return function(
                q, kv_cache, weights, context_lens, block_tables, max_model_len
            )
        if context_lens.ndim == 1:
            context_lens = decode_ends(context_lens, next_n, requests * next_n)
        return function(
            q.reshape(requests * next_n, 1, *q.shape[2:]),
            kv_cache,
            weights,
            context_lens.reshape(-1),
            block_tables.repeat_interleave(next_n, dim=0),
            max_model_len,
        )

    return logits


def install_device() -> None:
    from vllm.v1.attention.ops import rocm_aiter_mla_sparse

    module: Any = rocm_aiter_mla_sparse
    prefill, decode = (
        "_rocm_sparse_attn_prefill_ragged_triton",
        "_rocm_sparse_attn_decode_ragged_triton",
    )
    setattr(
        module,
        prefill,
        on_device(getattr(module, prefill), ("q", "kv", "indices", "indptr")),
    )
    setattr(
        module,
        decode,
        on_device(
            getattr(module, decode), ("q", "main_cache", "main_indices", "main_indptr")
        ),
    )
    module.fp8_paged_mqa_logits_torch = one_by_one(module.fp8_paged_mqa_logits_torch)


def install_compute_units() -> None:
    from vllm.models.deepseek_v4.common.ops import fused_compress_quant_cache

    module: Any = fused_compress_quant_cache
    module._n_cu = lambda: 1


def install_hc_head(platform: str) -> None:
    from vllm.model_executor.layers.mhc import HCHeadOp

    method = {"rocm": HCHeadOp.forward_hip, "xpu": HCHeadOp.forward_xpu}[platform]
    HCHeadOp.forward_native = method
