# SPDX-License-Identifier: Apache-2.0
"""Allocations and copies, seen from outside; and what was seen, as facts."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from harness.inside.probes.context import Context


class Memory(TorchDispatchMode):
    """Counts what the operators of this thread allocate and copy.

    Resident memory can't see an allocation that nobody touches (``torch.empty``), so
    every new storage that an operator returns is counted by its size, and dropped from
    the live sum when Python drops it. Scratch memory inside a kernel is not seen.

    Attributes:
        allocations: Number of new storages.
        allocated_bytes: Their total size.
        peak_bytes: The largest size alive at one time. None once a collective ran: a
            thread of the process group lets go of its tensors some time after it is
            done, so the sum is not the same each time.
        copies: Number of ``aten.copy_`` calls.
        copied_bytes: Bytes that these wrote.
    """

    def __init__(self) -> None:
        super().__init__()
        self.allocations = 0
        self.allocated_bytes = 0
        self.peak_bytes: int | None = 0
        self.copies = 0
        self.copied_bytes = 0
        self._live: dict[int, int] = {}
        self._live_bytes = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        before = {
            leaf.untyped_storage()._cdata
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        }
        result = func(*args, **kwargs)
        if func.namespace == "c10d":
            self.peak_bytes = None
        if func is torch.ops.aten.copy_.default:
            self.copies += 1
            self.copied_bytes += args[0].numel() * args[0].element_size()
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                if storage._cdata not in before:
                    self._note(storage)
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._live:
            return
        size = storage.nbytes()
        self._live[key] = size
        self._live_bytes += size
        self.allocations += 1
        self.allocated_bytes += size
        if self.peak_bytes is not None:
            self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self._live_bytes -= self._live.pop(key, 0)

    def record(self, context: Context, name: str) -> None:
        """Write the counts as facts named ``<name>/...``."""
        context.fact(f"{name}/allocations", self.allocations)
        context.fact(f"{name}/allocated_bytes", self.allocated_bytes)
        if self.peak_bytes is not None:
            context.fact(f"{name}/peak_bytes", self.peak_bytes)
        context.fact(f"{name}/copies", self.copies)
        context.fact(f"{name}/copied_bytes", self.copied_bytes)


def record_collectives(
    context: Context, name: str, calls: list[dict[str, Any]]
) -> None:
    """Write what :class:`harness.inside.observe.collectives.Collectives` saw.

    ``<name>/collectives`` lists group and operation in order. Each call then has
    ``<name>/<group>.<operation>.<i>.{shape,dtype,bytes,arguments,sizes}``, where i
    counts the calls of that operation in that group, and shape and bytes are of what
    this rank hands in.
    """
    context.fact(f"{name}/collectives", [f"{c['group']}.{c['op']}" for c in calls])
    seen: dict[str, int] = {}
    for call in calls:
        key = f"{call['group']}.{call['op']}"
        index = seen.get(key, 0)
        seen[key] = index + 1
        for part in ("shape", "dtype", "bytes", "arguments", "sizes"):
            context.fact(f"{name}/{key}.{index}.{part}", call[part])
