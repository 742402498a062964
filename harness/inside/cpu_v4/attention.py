# SPDX-License-Identifier: Apache-2.0
"""What DeepSeek V4's attention calls and a CPU lacks, by formulas in torch."""

from __future__ import annotations

import importlib
from typing import Any

import torch

_COLUMNS_MISSING = float("-inf")


class Nothing:
    """A stream or an event where there is only one stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def record(self, *args: Any) -> None: ...

    def wait(self, *args: Any) -> None: ...

    def synchronize(self) -> None: ...


def install_streams() -> None:
    torch.cuda.Stream = Nothing
    torch.cuda.Event = Nothing
    torch.xpu.Event = Nothing


def mm(original: Any) -> Any:
    """torch.mm that takes ``out_dtype``: the product in float32, then in that type."""

    def product(
        left: torch.Tensor, right: torch.Tensor, *, out_dtype: Any = None, **rest: Any
    ) -> torch.Tensor:
        if out_dtype is None:
            result: torch.Tensor = original(left, right, **rest)
            return result
        wide: torch.Tensor = original(left.float(), right.float(), **rest)
        return wide.to(out_dtype)

    return product


def install_mm() -> None:
    torch.mm = mm(torch.mm)


def top_k_rows(
    logits: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    indices: torch.Tensor,
    k: int,
) -> None:
    """The columns of each row's largest values within [start, end), from the start.

    Args:
        logits: [rows, columns], float32.
        starts: First valid column of each row.
        ends: Column after each row's last valid one.
        indices: [rows, k] int32, written in place: the columns, counted from the row's
            start, the largest value first; -1 where the row has no more.
        k: Columns wanted.
    """
    columns = torch.arange(logits.shape[1])
    valid = (columns >= starts.view(-1, 1)) & (columns < ends.view(-1, 1))
    known = torch.where(valid, logits, _COLUMNS_MISSING)
    count = min(k, logits.shape[1])
    # A stable sort: of equal values the first column comes first, on every tree.
    order = known.sort(dim=-1, descending=True, stable=True).indices[:, :count]
    found = torch.where(
        torch.arange(count) < valid.sum(-1, keepdim=True),
        order - starts.view(-1, 1),
        -1,
    )
    indices[: logits.shape[0]] = -1
    indices[: logits.shape[0], :count] = found.to(indices.dtype)


def top_k_per_row_prefill(
    logits: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    indices: torch.Tensor,
    rows: int,
    stride0: int,
    stride1: int,
    k: int,
) -> None:
    """In the signature of vLLM's operator."""
    top_k_rows(logits[:rows], starts[:rows], ends[:rows], indices, k)


def top_k_per_row_decode(
    logits: torch.Tensor,
    next_n: int,
    seq_lens: torch.Tensor,
    indices: torch.Tensor,
    rows: int,
    stride0: int,
    stride1: int,
    k: int,
) -> None:
    """In the signature of vLLM's operator: row r belongs to request r // next_n."""
    ends = decode_ends(seq_lens, next_n, rows)
    top_k_rows(logits[:rows], torch.zeros_like(ends), ends, indices, k)


def decode_ends(seq_lens: torch.Tensor, next_n: int, rows: int) -> torch.Tensor:
    """How many columns each row may look at.

    With one length per request, its row j of next_n sees next_n - 1 - j columns less;
    lengths per row (two dimensions) are taken as they are.
    """
    if seq_lens.ndim == 2:
        return seq_lens.reshape(-1)[:rows].long()
    behind = next_n - 1 - torch.arange(next_n)
    return (seq_lens.long().view(-1, 1) - behind).reshape(-1)[:rows].clamp(min=0)


def install_top_k(module: str) -> None:
    """Give ``module`` the two operators under ``torch.ops._C``."""
    _operators(module).top_k_per_row_prefill = top_k_per_row_prefill
    _operators(module).top_k_per_row_decode = top_k_per_row_decode


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of the last dimensions, pair by pair of neighbours.

    Args:
        x: [..., width], float32.
        cos: [..., pairs]: of the angle of each of the last ``pairs`` pairs.
        sin: As ``cos``.
    """
    plain, turned = x.split([x.shape[-1] - 2 * cos.shape[-1], 2 * cos.shape[-1]], -1)
    even, odd = turned[..., ::2], turned[..., 1::2]
    pairs = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1)
    return torch.cat((plain, pairs.flatten(-2)), -1)


def qnorm_rope(
    q: torch.Tensor,
    kv: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries divided by their root mean square, per head, and both rotated.

    Args:
        q: [tokens, heads, width].
        kv: [tokens, width].
        positions: [tokens] int64.
        cos_sin: [positions, rotated dimensions]: cosines, then sines.

    Returns:
        Queries and keys in the shapes and types that they came in.
    """
    cos, sin = cos_sin[positions].float().chunk(2, -1)
    wide = q.float()
    normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    turned = rotated(normal, cos.unsqueeze(1), sin.unsqueeze(1))
    return turned.to(q.dtype), rotated(kv.float(), cos, sin).to(kv.dtype)


def qnorm_rope_insert(
    q: torch.Tensor,
    kv: torch.Tensor,
    cache: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    padded_heads: int,
    eps: float,
    block_size: int,
) -> torch.Tensor:
    """In the signature of vLLM's operator; the tree's own kernel writes the cache.

    Args:
        q: [tokens, heads, 512].
        kv: [tokens, 512].
        cache: [blocks, bytes of a block]; gets ``kv``, rotated, as fp8.

    Returns:
        ``q``, normalised per head and rotated.
    """
    from vllm.models.deepseek_v4.common.ops.cache_utils import (
        quantize_and_insert_k_cache,
    )

    if q.shape[1] != padded_heads:
        raise ValueError(f"{q.shape[1]} heads are not {padded_heads}")
    q, kv = qnorm_rope(q, kv, positions, cos_sin, eps)
    quantize_and_insert_k_cache(kv, cache, slots, block_size=block_size)
    return q


def install_qnorm() -> None:
    name = "fused_deepseek_v4_qnorm_rope_kv_rope_quant_insert"
    setattr(_operators("vllm.models.deepseek_v4.attention"), name, qnorm_rope_insert)


class _Operators:
    """``torch.ops._C`` with a few operators more, for one module."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops._C, name)


class _Libraries:
    """``torch.ops`` whose ``_C`` is ours."""

    def __init__(self) -> None:
        self._C = _Operators()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops, name)


class _Torch:
    """``torch`` whose ``ops`` is ours."""

    def __init__(self) -> None:
        self.ops = _Libraries()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _operators(module: str) -> Any:
    """What ``torch.ops._C`` is for ``module``, made on first use."""
    found: Any = importlib.import_module(module)
    if not isinstance(found.torch, _Torch):
        found.torch = _Torch()
    return found.torch.ops._C
