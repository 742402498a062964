# SPDX-License-Identifier: Apache-2.0
"""What a run costs, beside doing it by hand: ``results/cost.json``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from harness.models.base import Model
from harness.models.pin import Tag
from harness.models.series import Number
from harness.models.summary import Machine


class VerifyCost(Model):
    """One run of ``make verify``."""

    name: str
    command: str
    seconds: PositiveFloat
    exit_code: int
    starts: int
    """Server starts that it made."""
    reused: int
    """Server starts whose facts it had."""


class ByHand(Model):
    """One state served as one would by hand: server, lm-eval, bench."""

    patch: Number
    side: Literal["before", "after"]
    start_seconds: NonNegativeFloat
    seconds: PositiveFloat
    """Of one server with everything on it, until it is gone."""
    repeated_seconds: NonNegativeFloat | None = None
    """Of the further starts that as many pairs as the first run's take; None: not
    made."""


class Cost(Model):
    """All of one run of ``make cost``."""

    schema_version: Literal[1] = 1
    tag: Tag
    profile: str
    command: str
    """Repeats the run."""
    finished_at: str
    machine: Machine
    patches: PositiveInt
    """In the series: by hand, each is served before and after."""
    runs: Annotated[tuple[VerifyCost, ...], Field(min_length=1)]
    by_hand: tuple[ByHand, ...]

    @property
    def by_hand_patches(self) -> int:
        """Patches that were measured by hand."""
        return len({one.patch for one in self.by_hand})

    @property
    def by_hand_seconds(self) -> float:
        """One start a side, for all patches; those not measured are taken to cost as
        much on average."""
        measured = sum(one.seconds for one in self.by_hand)
        return measured * self.patches / self.by_hand_patches

    @property
    def by_hand_paired_seconds(self) -> float | None:
        """The same with as many pairs of starts as the first run makes."""
        repeated = [one.repeated_seconds for one in self.by_hand]
        if any(seconds is None for seconds in repeated):
            return None
        extra = sum(seconds or 0.0 for seconds in repeated)
        return self.by_hand_seconds + extra * self.patches / self.by_hand_patches

    @property
    def ratio(self) -> float:
        """The first run's time as a share of one start a side by hand."""
        return self.runs[0].seconds / self.by_hand_seconds

    @property
    def paired_ratio(self) -> float | None:
        """The first run's time as a share of as many pairs by hand."""
        seconds = self.by_hand_paired_seconds
        return None if seconds is None else self.runs[0].seconds / seconds
