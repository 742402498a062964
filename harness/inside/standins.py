# SPDX-License-Identifier: Apache-2.0
"""Replacements for what a device can't do: named, with a reason, listed in results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ACTIVE: dict[str, StandIn] = {}
"""What is in place in this process, by name."""


@dataclass(frozen=True)
class StandIn:
    """One replacement outside the files under test.

    Args:
        name: Short and unique.
        replaces: What is replaced, and by what.
        reason: Why, with file and line at the pin.
        install: Puts it in place for the life of this process.
    """

    name: str
    replaces: str
    reason: str
    install: Callable[[], None]

    def activate(self) -> None:
        """Install it, once, and list it in :data:`ACTIVE`."""
        if self.name not in ACTIVE:
            self.install()
            ACTIVE[self.name] = self

    def describe(self) -> dict[str, str]:
        return {"name": self.name, "replaces": self.replaces, "reason": self.reason}
