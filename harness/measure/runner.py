# SPDX-License-Identifier: Apache-2.0
"""What the measuring tools need of a runnable tree (harness/runtime/overlay.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.paths import default_root
from harness.runtime.environment import Environment
from harness.runtime.variables import child_environment

Heartbeat = Callable[[], None]
"""Called while a client is at work; raises if the server died or hangs."""


class Runner(Protocol):
    """Runs modules of one environment, on one tree if it holds vLLM."""

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of its programs."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """``python -m module *arguments``."""


@dataclass(frozen=True)
class Client:
    """A client's environment that holds no vLLM, such as lm-eval's."""

    environment: Environment

    @property
    def env(self) -> dict[str, str]:
        """As in :class:`Runner`; ``harness.inside`` can be imported."""
        return {**child_environment(), "PYTHONPATH": str(default_root())}

    @property
    def site_packages(self) -> Path:
        return self.environment.site_packages

    def command(self, module: str, *arguments: str) -> list[str]:
        """As in :class:`Runner`."""
        return [str(self.environment.python), "-m", module, *arguments]

    def version(self, package: str) -> str:
        """The installed version of a distribution."""
        return self.environment.packages[package]
