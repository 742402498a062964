# SPDX-License-Identifier: Apache-2.0
"""Base against base on one machine: ``results/<tag>/noise/<profile>/noise.json``."""

from __future__ import annotations

from typing import Literal

from pydantic import FiniteFloat, NonNegativeFloat, PositiveInt

from harness.models.base import Model
from harness.models.pin import Sha256, Tag
from harness.models.signal import Signal, Verdict
from harness.models.summary import Machine


class Noise(Model):
    """What the comparison says where there is nothing to see."""

    schema_version: Literal[1] = 1
    tag: Tag
    profile: str
    verdict: Verdict
    command: str
    """Repeats the run."""
    finished_at: str
    """UTC, ISO 8601."""
    seconds: NonNegativeFloat
    machine: Machine
    content: Sha256
    """Of the tree that was compared with itself."""
    pairs: PositiveInt
    log_ratios: dict[str, tuple[FiniteFloat, ...]]
    """By the name of the metric, one for each pair."""
    floors: dict[str, NonNegativeFloat]
    """The relative change that as many pairs show by chance (95%)."""
    finds: dict[str, NonNegativeFloat]
    """The smallest relative harm that as many pairs find with a power of 80%."""
    signals: tuple[Signal, ...]

    def fits(self, machine: Machine) -> bool:
        """Whether it tells of ``machine``: what decides speed is the same."""
        mine, other = self.machine, machine
        return (mine.system, mine.processor, mine.cores, mine.accelerators) == (
            other.system, other.processor, other.cores, other.accelerators,
        )  # fmt: skip
