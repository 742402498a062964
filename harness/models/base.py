# SPDX-License-Identifier: Apache-2.0
"""The strict base model, and reading YAML or JSON into one with a clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from harness.errors import UsageError


class Model(BaseModel):
    """Immutable, and unknown keys are errors: a typo must not pass silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)


M = TypeVar("M", bound=BaseModel)


def load(path: Path, model: type[M]) -> M:
    """Read a YAML or JSON file as ``model``.

    Raises:
        UsageError: The file is missing, is no YAML, or does not fit the model; the
            message names the file and the first field at fault.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't be read: {error.strerror}", where=str(path)) from error
    try:
        data = json.loads(text) if path.suffix == ".json" else _yaml().load(text)
    except (YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UsageError(f"not readable: {problem}", where=f"{path}{line}") from error
    return validate(data, model, where=str(path))


def validate(data: Any, model: type[M], *, where: str) -> M:
    """Check plain data against ``model``; ``where`` names its origin in the error."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the document"
        more = error.error_count() - 1
        rest = f", and {more} more" if more else ""
        raise UsageError(f"{field}: {first['msg']}{rest}", where=where) from error


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = False
    return yaml
