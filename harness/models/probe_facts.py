# SPDX-License-Identifier: Apache-2.0
"""What a measured process saw: exact facts, by name, per scenario and rank."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from harness.models.base import Model

Fact = JsonValue
"""A fact's value: null, true, false, a whole number, a string, or a list of these."""

Kind = Literal["ok", "raised", "died", "timeout"]


class StandInUse(Model):
    """A replacement that was active, and why it had to be."""

    name: str
    replaces: str
    reason: str


class Outcome(Model):
    """How a rank ended."""

    kind: Kind
    type: str = ""
    """The exception's class, if it raised."""
    message: str = ""
    signal: str = ""
    """What ended it, if it died."""
    frames: tuple[tuple[str, int, str], ...] = ()
    """File, line and function of the stack at the end, innermost last."""


class RankFacts(Model):
    """One rank of one scenario on one tree."""

    outcome: Outcome
    facts: dict[str, Fact]
    standins: tuple[StandInUse, ...] = ()
    lines: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Executed lines of the series' files, by their real path."""


class ScenarioFacts(Model):
    """One scenario on one tree."""

    scenario: str
    seconds: float
    ranks: tuple[RankFacts, ...]
