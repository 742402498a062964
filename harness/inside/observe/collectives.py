# SPDX-License-Identifier: Apache-2.0
"""Collectives, as vLLM's group coordinators are asked for them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

OPERATIONS = (
    "all_reduce",
    "all_gather",
    "all_gatherv",
    "reduce_scatter",
    "reduce_scatterv",
    "gather",
    "broadcast",
    "broadcast_tensor_dict",
    "send",
    "recv",
    "send_tensor_dict",
    "recv_tensor_dict",
)
"""Methods of vLLM's GroupCoordinator that move tensors between ranks."""


class Collectives:
    """The collectives of this rank, in order.

    An operation that a coordinator builds from others (or that a custom operator hands
    to it again) is counted once, as the outermost call. Groups of one rank are left
    out: nothing moves there.

    Attributes:
        calls: See :func:`describe`.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._depth = 0

    @contextlib.contextmanager
    def watch(self) -> Iterator[Collectives]:
        """Wrap the coordinator's methods while the block runs."""
        from vllm.distributed.parallel_state import GroupCoordinator

        originals = {name: getattr(GroupCoordinator, name) for name in OPERATIONS}
        for name, original in originals.items():
            setattr(GroupCoordinator, name, self._wrap(name, original))
        try:
            yield self
        finally:
            for name, original in originals.items():
                setattr(GroupCoordinator, name, original)

    def _wrap(self, name: str, original: Any) -> Any:
        @functools.wraps(original)
        def wrapped(group: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and group.world_size > 1:
                self.calls.append(describe(name, group, args, kwargs))
            self._depth += 1
            try:
                return original(group, *args, **kwargs)
            finally:
                self._depth -= 1

        return wrapped


def describe(
    name: str, group: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """One call: ``op``, ``group`` (tp, ep, dp, pp ...), ``shape`` and ``dtype`` of each
    tensor that this rank hands in, their ``bytes``, the plain ``arguments`` (such as a
    dimension), and ``sizes``, the rows of every rank where the call names them.
    """
    tensors = [
        leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
    ]
    plain = [
        value
        for value in (*args, *kwargs.values())
        if value is None or isinstance(value, bool | int | str)
    ]
    sizes = kwargs.get("sizes")
    return {
        "op": name,
        "group": str(group.unique_name).split(":")[0],
        "shape": [list(tensor.shape) for tensor in tensors],
        "dtype": [str(tensor.dtype).removeprefix("torch.") for tensor in tensors],
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors),
        "arguments": plain,
        "sizes": None if sizes is None else list(sizes),
    }
