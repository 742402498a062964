# SPDX-License-Identifier: Apache-2.0
"""A model that a builder of this repository writes, kept in the user's cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from harness import files, paths, processes
from harness.errors import InfrastructureError
from harness.models.profile import MadeModel
from harness.paths import default_root
from harness.runtime.environment import Environment
from harness.runtime.variables import child_environment

MARKER = "harness-model.json"
"""Written last: name and sha256 of every file of a built model."""

_TIMEOUT = 300.0
_LIBRARIES = ("numpy", "safetensors", "tokenizers", "torch")


def ensure(source: MadeModel, environment: Environment) -> Path:
    """The model's folder; it is built on first use.

    Raises:
        InfrastructureError: It can't be built, or is not what was built.
    """
    name = f"{source.builder.rpartition('.')[2]}-{source.seed}"
    folder = paths.cache_dir() / "models" / f"{name}-{_key(source, environment)}"
    with files.locked(folder.with_name(f"{folder.name}.lock")):
        if not (folder / MARKER).is_file():
            _build(source, environment, folder)
        try:
            recorded = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        except ValueError:
            recorded = None
        if recorded != hashes(folder):
            raise InfrastructureError(
                "differs from what was built",
                where=str(folder),
                fix="remove that folder; it is built again",
            )
    return folder


def hashes(folder: Path) -> dict[str, str]:
    """sha256 of every file of a model, by name."""
    return {
        path.name: files.sha256_file(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != MARKER
    }


def _key(source: MadeModel, environment: Environment) -> str:
    """A digest of what decides the bytes: the builder and what is beside it, its
    libraries, its arguments."""
    module = default_root().joinpath(*source.builder.split(".")).with_suffix(".py")
    code = [files.sha256_file(path) for path in sorted(module.parent.glob("*.py"))]
    libraries = [environment.packages.get(name, "") for name in _LIBRARIES]
    content = [source.builder, code, source.seed, libraries]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def _build(source: MadeModel, environment: Environment, folder: Path) -> None:
    """Build aside, switch in when whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    log = folder.with_name(f"{folder.name}.log")
    try:
        command = [str(environment.python), "-m", source.builder, "--out", str(aside)]
        processes.run(
            [*command, "--seed", str(source.seed)],
            log=log,
            timeout=_TIMEOUT,
            env={**child_environment(), "PYTHONPATH": str(default_root())},
            cwd=aside,
        ).check(f"building the model of {source.builder}")
        marker = json.dumps(hashes(aside), indent=2, sort_keys=True)
        files.write_atomic(aside / MARKER, marker)
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
