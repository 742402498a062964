# SPDX-License-Identifier: Apache-2.0
"""Bytecode of an environment's packages, compiled once for all clones of the project.

A server imports five thousand modules of its environment; to compile them takes longer
than to start it. They are compiled by importing them, before anything is timed, and
kept in the user's cache; a clone gets links to them. A measured tree gets those of the
installed vLLM, of which most of its files are copies: there the bytecode of a file
names the hash of its source, and Python uses no other (PEP 552).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
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
_HASHED = """
import importlib.util, pathlib, sys
compiled, sources, into = map(pathlib.Path, sys.argv[1:])
for file in compiled.rglob("*.pyc"):
    place = file.relative_to(compiled)
    source = sources / place.with_name(place.name.partition(".")[0] + ".py")
    if not source.is_file():
        continue
    magic, code, stat = importlib.util.MAGIC_NUMBER, file.read_bytes(), source.stat()
    number = lambda value: (int(value) & 0xFFFFFFFF).to_bytes(4, "little")
    # Python's own check: compiled of the source as it is.
    if code[:16] == magic + number(0) + number(stat.st_mtime) + number(stat.st_size):
        source_hash = importlib.util.source_hash(source.read_bytes())
        (into / place).parent.mkdir(parents=True, exist_ok=True)
        (into / place).write_bytes(magic + number(3) + source_hash + code[16:])
"""
_PACKAGE = "vllm"
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


def place_tree(bytecode: Path, environment: Environment, tree: Path) -> None:
    """Give a tree that is to run the bytecode of the installed vLLM, by source.

    What there is of the tree's is removed: the rest of it would be trusted by time and
    size of its source, and a tree that was changed and changed back within a second
    must not meet the old one.

    Args:
        bytecode: What :func:`bytecode_folder` gave.
    """
    own = bytecode / str(tree).lstrip("/")
    with files.locked(bytecode.with_name(f"{bytecode.name}.tree.lock")):
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(
            _hashed(environment),
            own / _PACKAGE,
            copy_function=_link,
            # A process that runs the tree already may be adding to it.
            dirs_exist_ok=True,
        )


def _hashed(environment: Environment) -> Path:
    """The bytecode of the installed vLLM, each file held to the hash of its source."""
    name = environment.identity
    hashed = paths.cache_dir() / "bytecode" / f"{name}.hashed"
    with files.locked(hashed.with_name(f"{hashed.name}.lock")):
        if not hashed.is_dir():
            kept = _kept(environment, name)
            sources = environment.site_packages / _PACKAGE
            compiled = kept / str(sources).lstrip("/")
            with tempfile.TemporaryDirectory(dir=hashed.parent) as made:
                into = Path(made) / "bytecode"
                into.mkdir()
                words = (environment.python, "-I", "-c", _HASHED)
                _run([*words, compiled, sources, into], into)
                into.rename(hashed)
    return hashed


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
    _run([python, "-I", "-X", f"pycache_prefix={into}", "-c", _IMPORT, *IMPORTED], into)


def _run(command: Sequence[str | Path], folder: Path) -> None:
    """Run a script that writes to ``folder``. Whatever it wrote before it failed or
    took too long is right."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            env=child_environment(),
            cwd=folder,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )


def _place(own: Path, kept: Path) -> None:
    own.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=own.parent) as made:
        copy = Path(made) / "bytecode"
        shutil.copytree(kept, copy, copy_function=_link)
        copy.rename(own)


def _link(kept: str, own: str) -> str:
    try:
        os.link(kept, own)
    except FileExistsError:
        pass  # A running process was faster.
    except OSError:  # another file system
        shutil.copy2(kept, own)
    return own
