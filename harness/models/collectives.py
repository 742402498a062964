# SPDX-License-Identifier: Apache-2.0
"""The collectives of a draft model's forward, counted inside serving workers.

How many forwards a worker makes, and beside which batches of the other ranks, depends
on when requests arrive, and an idle data-parallel rank runs empty ones, so totals of
two runs are shown, not compared. The calls of a forward of so many tokens, beside so
many rows of the other ranks, depend on nothing else: these are compared, and must be
equal, bit for bit, where no change is claimed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from harness.models.base import Model


class Call(Model):
    """One collective, as one rank asked for it."""

    group: str
    """vLLM's name of the group: tp, ep, dp, pp ..."""
    op: str
    """The method of vLLM's GroupCoordinator."""
    shape: tuple[tuple[NonNegativeInt, ...], ...]
    """Of each tensor that the rank handed in."""
    dtype: tuple[str, ...]
    """Of each of these tensors."""
    bytes: NonNegativeInt
    """Of all of them together."""
    arguments: tuple[str | int | bool | None, ...] = ()
    """Plain ones, such as a dimension."""

    @property
    def kind(self) -> str:
        """Group and operation."""
        return f"{self.group}.{self.op}"


class StandInUsed(Model):
    """A replacement that was in place in the measured processes."""

    name: str
    replaces: str
    reason: str


Size = tuple[int, tuple[int, ...] | None]
"""Tokens of a forward, and the rows of every rank if a call named them."""


class DraftForwards(Model):
    """Forwards of the same size that made the same calls in one order."""

    tokens: NonNegativeInt
    sizes: tuple[NonNegativeInt, ...] | None = None
    """Rows of every rank of the group, where a call named them: what is summed over the
    ranks has that many rows. None: no call did."""
    count: PositiveInt
    """Such forwards, summed over the processes."""
    calls: tuple[Call, ...]

    @property
    def size(self) -> Size:
        """What decides the calls of a forward of one tree."""
        return self.tokens, self.sizes


class ProcessCollectives(Model):
    """One process's file: see harness/inside/collectives.py."""

    pid: PositiveInt
    role: str
    draft: str
    tensor_rank: NonNegativeInt
    data_rank: NonNegativeInt
    eager: bool
    stand_ins: tuple[StandInUsed, ...]
    forwards: tuple[DraftForwards, ...]


_Key = tuple[str, str, tuple[str, ...], tuple[tuple[int, ...], ...]]


class Total(Model):
    """Calls of one kind, data type and row, summed over forwards and processes."""

    group: str
    op: str
    dtype: tuple[str, ...]
    row: tuple[tuple[NonNegativeInt, ...], ...]
    """Shape of one row of each tensor: all dimensions but the first."""
    calls: PositiveInt
    rows: NonNegativeInt
    """Of the first tensors."""
    bytes: NonNegativeInt


class CollectiveFacts(Model):
    """What the draft's forwards of one server moved between its workers."""

    draft: str
    """Class of the draft model."""
    processes: PositiveInt
    stand_ins: tuple[StandInUsed, ...]
    """Replacements that were in place, the same in every process."""
    forwards: Annotated[tuple[DraftForwards, ...], Field(min_length=1)]
    """Each size once."""

    @property
    def count(self) -> int:
        """Forwards, over all processes."""
        return sum(forward.count for forward in self.forwards)

    @property
    def bytes(self) -> int:
        """Handed in by all ranks in all forwards."""
        return sum(
            forward.count * sum(call.bytes for call in forward.calls)
            for forward in self.forwards
        )

    @property
    def totals(self) -> tuple[Total, ...]:
        """Everything that was counted, by kind, data type and shape of a row."""
        calls: Counter[_Key] = Counter()
        rows: Counter[_Key] = Counter()
        sizes: Counter[_Key] = Counter()
        for forward in self.forwards:
            for call in forward.calls:
                row = tuple(shape[1:] for shape in call.shape)
                key = (call.group, call.op, call.dtype, row)
                calls[key] += forward.count
                first = call.shape[0][0] if call.shape and call.shape[0] else 0
                rows[key] += forward.count * first
                sizes[key] += forward.count * call.bytes
        return tuple(
            Total(
                group=key[0],
                op=key[1],
                dtype=key[2],
                row=key[3],
                calls=calls[key],
                rows=rows[key],
                bytes=sizes[key],
            )
            for key in sorted(calls)
        )

    @model_validator(mode="after")
    def _one_behaviour(self) -> CollectiveFacts:
        sizes = [forward.size for forward in self.forwards]
        if len(set(sizes)) != len(sizes):
            raise ValueError("a size of forwards is there twice")
        return self


class CallChange(Model):
    """A collective that is another one in the patched tree, over all shared sizes."""

    position: NonNegativeInt
    """In the order of the forward's calls."""
    base: str | None
    """Group and operation; None: the call is new."""
    patched: str | None
    """Group and operation; None: the call is gone."""
    bytes_per_row: tuple[int | None, int | None]
    """Bytes of one row that a rank hands in, base and patched; None where the call is
    missing or its bytes are no multiple of its rows."""
    tokens: tuple[NonNegativeInt, ...]
    """Of the forwards in which this was seen."""


class CollectiveComparison(Model):
    """Two trees' draft forwards, at the sizes that both were asked for."""

    tokens: tuple[NonNegativeInt, ...]
    """Of the forwards that were compared; a number comes again for other sizes of the
    other ranks."""
    equal_calls: NonNegativeInt
    """Calls equal in every respect, over these."""
    changes: tuple[CallChange, ...]


def compare(base: CollectiveFacts, patched: CollectiveFacts) -> CollectiveComparison:
    """Hold the patched tree's collectives to the base's, call by call.

    The n-th call of a forward is compared with the n-th call of a forward of the same
    size; a call is equal if group, operation, shapes, data types and arguments are.
    """
    others = {forward.size: forward for forward in patched.forwards}
    shared = [
        (before, others[before.size])
        for before in base.forwards
        if before.size in others
    ]
    equal = 0
    seen: dict[
        tuple[int, str | None, str | None, tuple[int | None, int | None]], list[int]
    ] = {}
    for before, after in shared:
        pairs = itertools.zip_longest(before.calls, after.calls)
        for position, (old, new) in enumerate(pairs):
            if old == new:
                equal += 1
                continue
            names = (old.kind if old else None, new.kind if new else None)
            key = (position, *names, (_per_row(old), _per_row(new)))
            seen.setdefault(key, []).append(before.tokens)
    return CollectiveComparison(
        tokens=tuple(before.tokens for before, _ in shared),
        equal_calls=equal,
        changes=tuple(
            CallChange(
                position=position,
                base=old_kind,
                patched=new_kind,
                bytes_per_row=widths,
                tokens=tuple(tokens),
            )
            for (position, old_kind, new_kind, widths), tokens in seen.items()
        ),
    )


def _per_row(call: Call | None) -> int | None:
    if call is None or not call.shape or not call.shape[0] or not call.shape[0][0]:
        return None
    width, rest = divmod(call.bytes, call.shape[0][0])
    return width if rest == 0 else None
