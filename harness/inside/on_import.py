# SPDX-License-Identifier: Apache-2.0
"""Run something right after a module is imported, without importing it early, and let
a module find other things under names that it imports.

A plugin is loaded by every process of vLLM, long before most of vLLM is: importing the
modules it changes there and then would slow every process down and change the order of
imports.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any

Names = dict[tuple[str, str], Any]
"""(module, attribute) to what ``from module import attribute`` is to give."""

_waiting: dict[str, list[Callable[[], None]]] = {}
_seeing: list[tuple[Callable[[str], bool], Names]] = []
_shown: list[Names] = [{}]
"""What the modules that are being imported find, the innermost last."""
_kept: Names = {}
"""What was there before, under the names that are shown now."""
_installed = False
_ABSENT = object()


def when_imported(module: str, action: Callable[[], None]) -> None:
    """Call ``action`` once ``module`` is there: now, or when it has been imported."""
    if module in sys.modules:
        action()
        return
    _waiting.setdefault(module, []).append(action)
    _install()


def while_importing(concerned: Callable[[str], bool], names: Names) -> None:
    """While a module that is ``concerned`` is executed, show it other ``names``.

    Modules that it imports see them only if they are concerned themselves.

    Raises:
        RuntimeError: A concerned module is imported already.
    """
    late = [name for name in sys.modules if concerned(name)]
    if late:
        raise RuntimeError(f"imported before the plugin was loaded: {', '.join(late)}")
    for module, _ in names:
        importlib.import_module(module)
    _seeing.append((concerned, names))
    _install()


def _install() -> None:
    global _installed
    if _installed:
        return
    _installed = True
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.exec_module

    def exec_module(this: Any, module: Any) -> None:
        _enter(_names_for(module.__name__))
        try:
            original(this, module)
        finally:
            _leave()
        for action in _waiting.pop(module.__name__, ()):
            action()

    loader.exec_module = exec_module


def _names_for(module: str) -> Names:
    found: Names = {}
    for concerned, names in _seeing:
        if concerned(module):
            found |= names
    return found


def _enter(names: Names) -> None:
    """Show ``names`` instead of what the importing module was shown."""
    _restore()
    _shown.append(names)
    _show(names)


def _leave() -> None:
    _restore()
    _shown.pop()
    _show(_shown[-1])


def _show(names: Names) -> None:
    for (module, attribute), value in names.items():
        # A module may make an attribute when it is asked for it: then it has none.
        source = sys.modules[module]
        _kept[module, attribute] = vars(source).get(attribute, _ABSENT)
        setattr(source, attribute, value)


def _restore() -> None:
    for (module, attribute), value in _kept.items():
        if value is _ABSENT:
            delattr(sys.modules[module], attribute)
        else:
            setattr(sys.modules[module], attribute, value)
    _kept.clear()
