# SPDX-License-Identifier: Apache-2.0
"""How much change matters, and how many server starts are paid to see it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from harness.models.base import Model

Share = Annotated[float, Field(gt=0, lt=1)]


class Margin(Model):
    """A share in a full run, and the wider one that few questions allow (QUICK=1)."""

    full: Share = 0.01
    quick: Share = 0.1

    def of(self, *, quick: bool) -> float:
        return self.quick if quick else self.full


class Pairs(Model):
    """Pairs of server starts for timing in a full run.

    They are starts for timing alone, after a first one of each state whose timing is
    discarded. A quick run, and one with a single pair, times that first one: one pair
    is a sieve, which judges nothing.
    """

    full: PositiveInt = 2
    confirm: PositiveInt = 3
    """Fresh pairs where the first ones show or suggest a harm that matters."""


class Gates(Model):
    """What a verdict on a profile's measurements rests on."""

    accuracy_margin: Margin = Margin()
    """Loss of accuracy that must be excluded."""
    logprob_tolerance: PositiveFloat = 1e-5
    """Nats; what a greedy log-probability may differ by."""
    acceptance_floor: Share = 0.03
    """Relative loss of acceptance that matters."""
    throughput_floor: Share = 0.02
    latency_floor: Share = 0.03
    expected_spread: Share = 0.05
    """Standard deviation of one pair's log ratio, for what a run says it can find, and
    for how far beyond the floor a single pair has to be to be timed again."""
    pairs: Pairs = Pairs()
    serving_accuses_only: bool = False
    """Timings can say "worse" but are not needed for a pass: on a CPU they say little
    of the hardware that the patches are for."""

    @model_validator(mode="after")
    def _ordered(self) -> Gates:
        if self.accuracy_margin.quick < self.accuracy_margin.full:
            raise ValueError("the quick margin is narrower than the full one")
        return self
