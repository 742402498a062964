# SPDX-License-Identifier: Apache-2.0
"""Bytecode of an environment: compiled once, linked into every project."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from harness.runtime import bytecode
from harness.runtime.bytecode import bytecode_folder
from harness.runtime.environment import Environment

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "IMPORTED", ("no_such_module", "wave"))


def environment(python: Path = Path(sys.executable)) -> Environment:
    return Environment(
        name="sample",
        key="1",
        python=python,
        python_version=platform.python_version(),
        site_packages=Path(),
        packages={},
    )


def compiled(folder: Path) -> list[Path]:
    return list(folder.rglob("wave.*.pyc"))


def test_what_can_be_imported_is_compiled(tmp_path: Path) -> None:
    folder = bytecode_folder(environment(), tmp_path)
    assert folder.is_relative_to(tmp_path)
    assert len(compiled(folder)) == 1


def test_a_second_project_compiles_nothing(tmp_path: Path) -> None:
    first = bytecode_folder(environment(), tmp_path / "one")
    # This one could not even be started.
    second = bytecode_folder(environment(tmp_path / "none"), tmp_path / "two")
    assert compiled(first)[0].samefile(compiled(second)[0])


def test_another_file_system_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", refuse)
    assert compiled(bytecode_folder(environment(), tmp_path))


def test_what_a_project_adds_stays_with_it(tmp_path: Path, own_cache: Path) -> None:
    folder = bytecode_folder(environment(), tmp_path)
    (folder / "own.pyc").write_text("x")
    assert bytecode_folder(environment(), tmp_path) == folder
    assert (folder / "own.pyc").exists()
    assert not list(own_cache.rglob("own.pyc"))
    assert not [p for p in folder.parent.iterdir() if p.is_dir() and p != folder]
