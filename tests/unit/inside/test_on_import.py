# SPDX-License-Identifier: Apache-2.0
"""Changing a module when it is imported, and not before."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from harness.inside import standins
from harness.inside.on_import import when_imported, while_importing
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


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The stem of four modules: one takes a name of ``_source`` and imports two more,
    which take it as well, before and after."""
    stem = f"kin_{tmp_path.name.replace('-', '_')}"
    take = f"from {stem}_source import name\n"
    contents = {
        "source": "name = 'plain'\n",
        "outer": f"import {stem}_inner\n{take}import {stem}_aside\n{take}",
        "inner": take,
        "aside": take,
    }
    for part, text in contents.items():
        (tmp_path / f"{stem}_{part}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return stem


def test_concerned_modules_find_another_thing(family: str) -> None:
    shown = {f"{family}_outer": "other", f"{family}_inner": "other"}
    while_importing(lambda name: name in shown, {(f"{family}_source", "name"): "other"})
    importlib.import_module(f"{family}_outer")
    found = {
        part: sys.modules[f"{family}_{part}"].name
        for part in ("source", "outer", "inner", "aside")
    }
    assert found == {
        "source": "plain",
        "outer": "other",
        "inner": "other",
        "aside": "plain",
    }


def test_a_failed_import_leaves_the_source_alone(family: str, tmp_path: Path) -> None:
    broken = f"{family}_broken"
    (tmp_path / f"{broken}.py").write_text("raise ValueError('on purpose')")
    source = f"{family}_source"
    while_importing(lambda name: name == broken, {(source, "name"): "other"})
    with pytest.raises(ValueError, match="on purpose"):
        importlib.import_module(broken)
    assert sys.modules[source].name == "plain"


def test_a_module_that_came_too_early_is_an_error(family: str) -> None:
    early = f"{family}_aside"
    importlib.import_module(early)
    with pytest.raises(RuntimeError, match=early):
        while_importing(lambda name: name == early, {(f"{family}_source", "name"): 1})
