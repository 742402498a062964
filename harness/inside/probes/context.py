# SPDX-License-Identifier: Apache-2.0
"""What one rank of one scenario gets to work with, and where its facts go."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.inside.probes.digests import describe
from harness.inside.standins import StandIn

Fact = Any
"""A JSON value: null, a boolean, an integer, a string, or a list of these."""


@dataclass
class Context:
    """One rank of one scenario.

    Args:
        parameters: The scenario's parameters, as written in the claims file.
        rank: This process's number, from 0.
        ranks: How many processes run this scenario.
        folder: A folder that the scenario's ranks share, empty at the start.
        port: A TCP port on this host for the first rendezvous of the ranks.
    """

    parameters: dict[str, Any]
    rank: int
    ranks: int
    folder: Path
    port: int
    facts: dict[str, Fact] = field(default_factory=dict)
    standins: dict[str, dict[str, str]] = field(default_factory=dict)

    def fact(self, name: str, value: Fact) -> None:
        """Record one exact fact; a name may be used once.

        Raises:
            ValueError: The name is taken.
        """
        if name in self.facts:
            raise ValueError(f"fact {name} is recorded twice")
        self.facts[name] = value

    def tensor(self, name: str, tensor: Any) -> None:
        """Record a tensor: shape, strides, data type and sha256 of its bytes."""
        for part, value in describe(tensor).items():
            self.fact(f"{name}.{part}", value)

    def use(self, *standins: StandIn) -> None:
        """Put replacements in place, and list them in the result."""
        for standin in standins:
            standin.activate()
            self.standins[standin.name] = standin.describe()
