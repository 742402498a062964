# SPDX-License-Identifier: Apache-2.0
"""What one server start yielded."""

from __future__ import annotations

from enum import StrEnum

from pydantic import NonNegativeFloat

from harness.models.base import Model
from harness.models.collectives import CollectiveFacts
from harness.models.facts import (
    AcceptanceFacts,
    AccuracyFacts,
    MemoryFacts,
    ServingFacts,
    StepFacts,
)
from harness.models.hidden_buffer import HiddenBufferFacts
from harness.models.proof import Proof


class Part(StrEnum):
    """What a server is started for."""

    ANSWERS = "answers"
    """Accuracy, acceptance and memory: facts that don't depend on the clock."""
    TIMING = "timing"
    COVERAGE = "coverage"
    """Executed lines; tracing is slow, so in a start of its own."""


class BootFacts(Model):
    """Everything measured on one server start; parts not asked for are empty."""

    proof: Proof
    start_seconds: NonNegativeFloat
    accuracy: tuple[AccuracyFacts, ...] = ()
    acceptance: tuple[AcceptanceFacts, ...] = ()
    memory: MemoryFacts | None = None
    steps: StepFacts | None = None
    """None: no request had more than one step, or the release does not tell."""
    collectives: CollectiveFacts | None = None
    """None: the profile does not count them."""
    hidden_buffer: HiddenBufferFacts | None = None
    """None: the profile does not watch it."""
    serving: tuple[ServingFacts, ...] = ()
    lines: dict[str, tuple[int, ...]] = {}
    """Executed lines of the target files, by path in vLLM's tree."""
