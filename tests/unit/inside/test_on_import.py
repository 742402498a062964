# SPDX-License-Identifier: Apache-2.0
"""Changing a module when it is imported, and not before."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from harness.inside import standins
from harness.inside.on_import import when_imported
from harness.inside.standins import StandIn


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that can be imported and has not been."""
    name = f"toy_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_it_waits_for_the_import(module: str) -> None:
    seen: list[int] = []
    when_imported(module, lambda: seen.append(sys.modules[module].value))
    assert seen == []
    assert module not in sys.modules
    importlib.import_module(module)
    assert seen == [1]


def test_it_runs_at_once_when_the_module_is_there(module: str) -> None:
    importlib.import_module(module)
    seen: list[int] = []
    when_imported(module, lambda: seen.append(1))
    assert seen == [1]


def test_all_who_wait_are_called_once(module: str) -> None:
    seen: list[str] = []
    when_imported(module, lambda: seen.append("a"))
    when_imported(module, lambda: seen.append("b"))
    importlib.reload(importlib.import_module(module))
    assert seen == ["a", "b"]


def test_a_stand_in_is_installed_once_and_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standins, "ACTIVE", {})
    seen: list[int] = []
    toy = StandIn("toy", "nothing", "for a test", lambda: seen.append(1))
    assert standins.ACTIVE == {}
    toy.activate()
    toy.activate()
    assert seen == [1]
    assert {"toy": toy} == standins.ACTIVE
