# SPDX-License-Identifier: Apache-2.0
"""The model a profile names, at hand and known by the content of its files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.measure import made_model
from harness.models.profile import HubModel, LocalModel, MadeModel, ModelSource
from harness.paths import Project
from harness.runtime.environment import Environment


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
    """The model of a profile; one that is made here is built on first use.

    Raises:
        UsageError: A local folder is no model, or the revision of one on the hub is
            not known.
        InfrastructureError: It can't be built, or is not what was built.
    """
    match source:
        case MadeModel():
            folder = made_model.ensure(source, environment)
            return ReadyModel(str(folder), folder, made_model.hashes(folder))
        case LocalModel():
            folder = project.root / source.path
            if not (folder / "config.json").is_file():
                raise UsageError("no model in this folder", where=str(folder))
            return ReadyModel(str(folder), folder, made_model.hashes(folder))
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

    One that is made here has no place before: a word stands for its folder.
    """
    match source:
        case HubModel():
            # The tokenizer is the server's and the clients' own business there.
            name, mode = source.id, source.tokenizer_mode
            return ReadyModel(name, Path(name), {}, source.revision, mode)
        case LocalModel():
            return ReadyModel(source.path, Path(source.path), {})
        case MadeModel():
            return ReadyModel("MODEL", Path("MODEL"), {})
