# SPDX-License-Identifier: Apache-2.0
"""Collectives whose ranks hold different numbers of rows, from those that gloo has.

gloo gathers equal sizes only and has no reduce-scatter of unequal ones. A copy or a sum
too many is no matter here: bytes are counted where vLLM asks for the collective, above
the communicator.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def all_gatherv(
    self: Any,
    input_: torch.Tensor | list[torch.Tensor],
    dim: int = 0,
    sizes: list[int] | None = None,
) -> torch.Tensor | list[torch.Tensor]:
    """Concatenate the ranks' tensors along ``dim``.

    Args:
        self: The communicator.
        input_: ``sizes[rank]`` rows along ``dim``, everything else equal on all
            ranks; or a list of such tensors, gathered one by one.
        sizes: Rows of each rank, the same list on all; None: all hold as many.

    Returns:
        ``sum(sizes)`` rows, in the order of the ranks.

    Raises:
        ValueError: The rows are not those that ``sizes`` says.
    """
    if isinstance(input_, list):
        return [_gather(self, tensor, dim, sizes) for tensor in input_]
    return _gather(self, input_, dim, sizes)


def reduce_scatterv(
    self: Any, input_: torch.Tensor, dim: int = -1, sizes: list[int] | None = None
) -> torch.Tensor:
    """Sum the ranks' tensors and keep this rank's part along ``dim``.

    Args:
        self: The communicator.
        input_: ``sum(sizes)`` rows along ``dim``, the same shape on all ranks; it is
            left as it is.
        sizes: Rows that each rank keeps; None: equal parts.

    Raises:
        ValueError: The rows are not those that ``sizes`` says.
    """
    rows = input_.movedim(dim, 0)
    counts = sizes
    if counts is None:
        counts = [rows.shape[0] // self.world_size] * self.world_size
    _check(self, counts, rows.shape[0], sum(counts))
    # all_reduce works in place and wants contiguous memory.
    total = rows.clone(memory_format=torch.contiguous_format)
    if total.numel():
        dist.all_reduce(total, group=self.device_group)
    start = sum(counts[: self.rank_in_group])
    own = total[start : start + counts[self.rank_in_group]]
    return own.movedim(0, dim).clone(memory_format=torch.contiguous_format)


def _gather(
    self: Any, tensor: torch.Tensor, dim: int, sizes: list[int] | None
) -> torch.Tensor:
    rows = tensor.movedim(dim, 0)
    counts = [rows.shape[0]] * self.world_size if sizes is None else sizes
    _check(self, counts, rows.shape[0], counts[self.rank_in_group])
    padded = rows.new_zeros((max(counts), *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    parts = [torch.empty_like(padded) for _ in counts]
    if padded.numel():
        dist.all_gather(parts, padded, group=self.device_group)
    cut = [part[:count] for part, count in zip(parts, counts, strict=True)]
    return torch.cat(cut).movedim(0, dim).contiguous()


def _check(self: Any, sizes: list[int], found: int, wanted: int) -> None:
    if len(sizes) != self.world_size or found != wanted:
        raise ValueError(
            f"rank {self.rank_in_group} of {self.world_size} has {found} rows, the "
            f"sizes are {sizes}"
        )


def install_all_gatherv() -> None:
    _communicator().all_gatherv = all_gatherv


def install_reduce_scatterv() -> None:
    _communicator().reduce_scatterv = reduce_scatterv


def _communicator() -> Any:
    from vllm.distributed.device_communicators import cpu_communicator

    return cpu_communicator.CpuCommunicator
