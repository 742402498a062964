# SPDX-License-Identifier: Apache-2.0
"""Bytecode of an environment's packages, compiled once for all clones of the project.

A server imports five thousand modules of its environment; to compile them takes longer
than to start it. They are compiled by importing them, before anything is timed, and
kept in the user's cache; a clone gets links to them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import files, paths
from harness.runtime.environment import Environment
from harness.runtime.variables import child_environment

IMPORTED = (
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.cli.main",
    "vllm.v1.engine.core",
    "vllm.benchmarks.serve",
)
"""What servers and their benchmark import, with all that these import."""

_IMPORT = """
import contextlib, importlib, sys
for name in sys.argv[1:]:
    with contextlib.suppress(Exception):
        importlib.import_module(name)
"""
_TIMEOUT = 600.0
"""Seconds."""


def bytecode_folder(environment: Environment, build: Path) -> Path:
    """Where a project's programs keep bytecode (PYTHONPYCACHEPREFIX).

    Args:
        build: The project's build folder. What is added later stays in it: kept
            files are replaced, never written to.
    """
    name = environment.identity
    own = build / "bytecode" / name
    with files.locked(own.with_name(f"{name}.lock")):
        if not own.is_dir():
            _place(own, _kept(environment, name))
    return own


def _kept(environment: Environment, name: str) -> Path:
    """The environment's bytecode, compiled on first use; may lack some of it, since
    what can't be imported on this machine is left out."""
    kept = paths.cache_dir() / "bytecode" / name
    with files.locked(kept.with_name(f"{name}.lock")):
        if not kept.is_dir():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept.parent) as made:
                _compile(environment.python, Path(made) / "bytecode")
                (Path(made) / "bytecode").rename(kept)
    return kept


def _compile(python: Path, into: Path) -> None:
    into.mkdir()
    command = [str(python), "-I", "-X", f"pycache_prefix={into}", "-c", _IMPORT]
    try:
        subprocess.run(
            [*command, *IMPORTED],
            env=child_environment(),
            cwd=into,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return  # What there is of it is right.


def _place(own: Path, kept: Path) -> None:
    own.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=own.parent) as made:
        copy = Path(made) / "bytecode"
        shutil.copytree(kept, copy, copy_function=_link)
        copy.rename(own)


def _link(kept: str, own: str) -> str:
    try:
        os.link(kept, own)
    except OSError:  # another file system
        shutil.copy2(kept, own)
    return own
