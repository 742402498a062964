# SPDX-License-Identifier: Apache-2.0
"""The model a profile names, at hand and known by the content of its files."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import files, paths, processes
from harness.errors import InfrastructureError, UsageError
from harness.models.profile import HubModel, LocalModel, ModelSource, SeededModel
from harness.paths import Project, default_root
from harness.runtime.environment import Environment
from harness.runtime.variables import child_environment

_INSIDE = default_root() / "harness" / "inside"
_BUILDER = _INSIDE / "tiny_model.py"
_ARCHITECTURE = _INSIDE / "deepseek_v3.py"
_BUILD_TIMEOUT = 300.0
_MARKER = "harness-model.json"
"""Written last: name and sha256 of every file of a built model."""


@dataclass(frozen=True)
class ReadyModel:
    """A model that a server can be started with.

    ``location`` is a folder, or the id on the hub; ``revision`` goes with the latter.
    ``sha256`` names every file of a folder by its content.
    """

    location: str
    tokenizer: Path
    sha256: dict[str, str]
    revision: str | None = None
    tokenizer_mode: str | None = None

    @property
    def digest(self) -> str:
        """One hash for all that the model is."""
        named = [self.location, self.revision, self.tokenizer_mode]
        content = [self.sha256] if self.sha256 else named
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def server_arguments(self) -> list[str]:
        """Besides the model itself: the revision on the hub, and the tokenizer."""
        revision, mode = self.revision, self.tokenizer_mode
        return [
            *(["--revision", revision] if revision else []),
            *(["--tokenizer-mode", mode] if mode else []),
        ]


def ensure(
    project: Project, source: ModelSource, environment: Environment
) -> ReadyModel:
    """The model of a profile; a seeded one is built on first use.

    Raises:
        UsageError: A local folder is no model, or the revision of one on the hub is
            not known.
        InfrastructureError: It can't be built, or is not what was built.
    """
    match source:
        case SeededModel():
            return _seeded(source, environment)
        case LocalModel():
            folder = project.root / source.path
            if not (folder / "config.json").is_file():
                raise UsageError("no model in this folder", where=str(folder))
            return ReadyModel(str(folder), folder, _hashes(folder))
        case HubModel():
            if source.revision is None:
                raise UsageError(
                    "no revision is recorded",
                    where=source.id,
                    fix="REVISION=<its commit on the hub>",
                )
            return described(source)


def described(source: ModelSource) -> ReadyModel:
    """The model as command lines name it, without looking for it.

    A seeded model has no place before it is built: a word stands for its folder.
    """
    match source:
        case HubModel():
            # The tokenizer is the server's and the clients' own business there.
            name, mode = source.id, source.tokenizer_mode
            return ReadyModel(name, Path(name), {}, source.revision, mode)
        case LocalModel():
            return ReadyModel(source.path, Path(source.path), {})
        case SeededModel():
            return ReadyModel("MODEL", Path("MODEL"), {})


def _seeded(source: SeededModel, environment: Environment) -> ReadyModel:
    key = _key(source, environment)
    folder = paths.cache_dir() / "models" / f"tiny-{source.seed}-{key}"
    with files.locked(folder.with_name(f"{folder.name}.lock")):
        if not (folder / _MARKER).is_file():
            _build(source, environment, folder)
        try:
            recorded = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        except ValueError:
            recorded = None
        found = _hashes(folder)
    if recorded != found:
        raise InfrastructureError(
            "differs from what was built",
            where=str(folder),
            fix="remove that folder; it is built again",
        )
    return ReadyModel(str(folder), folder, found)


def _key(source: SeededModel, environment: Environment) -> str:
    """A digest of what decides the bytes: the builder, its libraries, the seed."""
    names = ("numpy", "safetensors", "tokenizers")
    libraries = [environment.packages.get(name, "") for name in names]
    code = [files.sha256_file(path) for path in (_BUILDER, _ARCHITECTURE)]
    content = [*code, source.seed, libraries]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def _build(source: SeededModel, environment: Environment, folder: Path) -> None:
    """Build aside, switch in when whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    log = folder.with_name(f"{folder.name}.log")
    try:
        command = [str(environment.python), str(_BUILDER), "--out", str(aside)]
        processes.run(
            [*command, "--seed", str(source.seed)],
            log=log,
            timeout=_BUILD_TIMEOUT,
            env={**child_environment(), "PYTHONPATH": str(default_root())},
        ).check("building the tiny model")
        marker = json.dumps(_hashes(aside), indent=2, sort_keys=True)
        files.write_atomic(aside / _MARKER, marker)
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _hashes(folder: Path) -> dict[str, str]:
    return {
        path.name: files.sha256_file(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != _MARKER
    }
