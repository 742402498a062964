# SPDX-License-Identifier: Apache-2.0
"""Bytecode of an environment: compiled once, linked into every project."""

from __future__ import annotations

import dataclasses
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from harness.runtime import bytecode
from harness.runtime.bytecode import bytecode_folder, place_tree
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


def write(folder: Path, **modules: str) -> Path:
    """A package vllm; what each of its modules says it is."""
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm" / "__init__.py").touch()
    for name, says in modules.items():
        (folder / "vllm" / f"{name}.py").write_text(
            f"def says():\n    return {says!r}\n"
        )
    return folder


SAY = """
import importlib, sys
for name in sys.argv[1:]:
    says = importlib.import_module(f"vllm.{name}").says
    print(says(), says.__code__.co_filename)
"""


def said(tree: Path, prefix: Path, *modules: str) -> list[str]:
    """What modules of a tree say, and the files of their code."""
    return subprocess.run(
        [sys.executable, "-c", SAY, *modules],
        env={"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(prefix)},
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip


def of(tree: Path, **modules: str) -> list[str]:
    return [f"{says} {tree}/vllm/{name}.py" for name, says in modules.items()]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment with a vLLM that was imported once."""
    site, kept = write(tmp_path / "site", a="one", b="two"), tmp_path / "kept"
    said(site, kept, "a", "b")
    monkeypatch.setattr(bytecode, "_kept", lambda *_: kept)
    return dataclasses.replace(environment(), site_packages=site)


def test_a_tree_runs_its_own_files(installed: Environment, tmp_path: Path) -> None:
    tree, build = write(tmp_path / "tree", a="one", b="2nd"), tmp_path / "build"
    place_tree(build, installed, tree)
    (ready,) = build.rglob("a.*.pyc")
    (other,) = build.rglob("b.*.pyc")
    same, changed = ready.read_bytes(), other.read_bytes()
    assert said(tree, build, "a", "b") == of(tree, a="one", b="2nd")
    assert ready.read_bytes() == same
    assert ready.stat().st_nlink == 2, "compiled again, though its source is the same"
    assert other.read_bytes() != changed


def test_what_was_compiled_of_another_source_is_not_taken(
    installed: Environment, tmp_path: Path
) -> None:
    file = installed.site_packages / "vllm" / "a.py"
    file.write_text(file.read_text().replace("one", "three"))
    tree, build = write(tmp_path / "tree", a="three", b="two"), tmp_path / "build"
    place_tree(build, installed, tree)
    assert not list(build.rglob("a.*.pyc"))
    assert said(tree, build, "a", "b") == of(tree, a="three", b="two")


@pytest.mark.parametrize("name", ["a", "c"])
def test_a_change_within_a_second_is_seen(
    installed: Environment, tmp_path: Path, name: str
) -> None:
    """Of a file that was installed, and of one that was not."""
    tree, build = write(tmp_path / "tree", a="one", c="one"), tmp_path / "build"
    file = tree / "vllm" / f"{name}.py"
    place_tree(build, installed, tree)
    said(tree, build, name)
    before = file.stat()
    file.write_text(file.read_text().replace("one", "two"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    place_tree(build, installed, tree)
    assert said(tree, build, name) == of(tree, **{name: "two"})
