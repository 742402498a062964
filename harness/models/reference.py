# SPDX-License-Identifier: Apache-2.0
"""What is known of the reference model: ``configs/reference-model/manifest.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from harness.errors import UsageError
from harness.files import sha256_file
from harness.models.base import Model, load
from harness.models.pin import Sha256

MANIFEST = "manifest.json"
MODEL = "model"
"""Folder with weights, configuration and tokenizer, as vLLM loads it."""
PROBLEMS = "problems"
"""Folder with train.jsonl (for examples) and test.jsonl, in gsm8k's layout."""
LOG = "training.jsonl"


class ReferenceManifest(Model):
    """Where the reference model comes from, and the hash of each of its files."""

    seed: Annotated[int, Field(ge=0)]
    steps: PositiveInt
    """Optimizer steps of the whole training."""
    seconds: PositiveFloat
    """How long the steps took on the machine that made these files."""
    answer_end: Annotated[int, Field(ge=0)]
    """Id of the token that ends an answer (the blank line)."""
    made_with: dict[str, str]
    """Versions of Python and the packages that trained it."""
    files: Annotated[dict[str, Sha256], Field(min_length=1)]
    """Hash of every file, by its path below the folder."""


def listed(folder: Path) -> list[str]:
    """Every file of the folder but the manifest, by its path below it."""
    found = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return sorted(path for path in found if path != MANIFEST)


def read_checked(folder: Path) -> ReferenceManifest:
    """The manifest of a folder whose files are those it lists.

    Raises:
        UsageError: A file is missing, is not listed, or has other bytes.
    """
    manifest = load(folder / MANIFEST, ReferenceManifest)
    fix = "take the committed folder, or `make reference-model` to train it again"
    for path in sorted({*listed(folder), *manifest.files}):
        file = folder / path
        if path not in manifest.files:
            raise UsageError(f"is not listed in {MANIFEST}", where=str(file), fix=fix)
        if not file.is_file():
            raise UsageError("is missing", where=str(file), fix=fix)
        if sha256_file(file) != manifest.files[path]:
            raise UsageError(
                f"has other bytes than {MANIFEST} says", where=str(file), fix=fix
            )
    return manifest
