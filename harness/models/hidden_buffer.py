# SPDX-License-Identifier: Apache-2.0
"""The buffer that a target model keeps for a draft, as serving workers had it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from harness.models.base import Model
from harness.models.collectives import StandInUsed


class Buffer(Model):
    """One allocation."""

    shape: tuple[NonNegativeInt, ...]
    dtype: str
    bytes: NonNegativeInt

    def __str__(self) -> str:
        return f"{self.bytes:,} bytes ({' x '.join(map(str, self.shape))} {self.dtype})"


class ServedClass(Model):
    """A class of target or draft, as the serving process has it."""

    name: str
    foreign: tuple[str, ...] = ()
    """Its methods that are not the tree's own code."""


class HiddenBufferFacts(Model):
    """One process's target model and its buffer."""

    pid: PositiveInt
    role: str
    model: str
    """Module and name of the class."""
    classes: Annotated[tuple[ServedClass, ...], Field(min_length=1)]
    """Those of target and draft that belong to vLLM's models."""
    buffer: Buffer | None = None
    """None: there was none."""
    forwards: NonNegativeInt
    """Of the target, its warm-up included."""
    rows: NonNegativeInt
    """Tokens of all these forwards."""
    rows_of_residual: NonNegativeInt
    """Those whose row of the buffer, right after the forward, was what the forward had
    handed to the head, bit for bit."""
    stand_ins: tuple[StandInUsed, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> HiddenBufferFacts:
        if self.rows_of_residual > (self.rows if self.buffer else 0):
            raise ValueError(
                f"{self.rows_of_residual} of {self.rows} rows, buffer {self.buffer}"
            )
        return self

    @property
    def foreign(self) -> tuple[str, ...]:
        """Methods of served classes that are not the tree's own code."""
        return tuple(f"{c.name}.{method}" for c in self.classes for method in c.foreign)

    @property
    def filled(self) -> bool:
        """Whether the buffer, if there is one, held the residual at every forward."""
        return self.buffer is None or self.rows_of_residual == self.rows
