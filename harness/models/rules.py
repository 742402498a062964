# SPDX-License-Identifier: Apache-2.0
"""Structural rules of a patch: ``patches/rules/<number>.yaml``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from harness.models.base import Model


class Clause(Model):
    """One statement about a syntax tree that a reviewer can check by reading."""

    says: Annotated[str, StringConstraints(min_length=20)]
    rule: dict[str, Any]
    """An ast-grep rule object; the clause holds when any node matches."""
    constraints: dict[str, Any] = Field(default_factory=dict)
    utils: dict[str, Any] = Field(default_factory=dict)


class TargetRules(Model):
    """What the defect and its fix look like in one file."""

    path: str
    defect: Annotated[tuple[Clause, ...], Field(min_length=1)]
    """The defect is there when any of these holds."""
    fix: Annotated[tuple[Clause, ...], Field(min_length=1)]
    """The fix, in whatever form, is there when all of these hold."""


class PatchRules(Model):
    """The rules of one patch, one entry per target."""

    shared: Any = None
    """A place for YAML anchors that several targets use."""
    language: str = "python"
    targets: Annotated[tuple[TargetRules, ...], Field(min_length=1)]

    def target(self, path: str) -> TargetRules | None:
        """The rules for ``path``, if it has any."""
        return next((t for t in self.targets if t.path == path), None)
