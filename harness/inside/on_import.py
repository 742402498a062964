# SPDX-License-Identifier: Apache-2.0
"""Run something right after a module is imported, without importing it early.

A plugin is loaded by every process of vLLM, long before most of vLLM is: importing the
modules it changes there and then would slow every process down and change the order of
imports.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any

_waiting: dict[str, list[Callable[[], None]]] = {}
_installed = False


def when_imported(module: str, action: Callable[[], None]) -> None:
    """Call ``action`` once ``module`` is there: now, or when it has been imported."""
    if module in sys.modules:
        action()
        return
    _waiting.setdefault(module, []).append(action)
    _install()


def _install() -> None:
    global _installed
    if _installed:
        return
    _installed = True
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.exec_module

    def exec_module(this: Any, module: Any) -> None:
        original(this, module)
        for action in _waiting.pop(module.__name__, ()):
            action()

    loader.exec_module = exec_module
