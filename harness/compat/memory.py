# SPDX-License-Identifier: Apache-2.0
"""Verdicts that were reached before, by the content they were reached from.

The key holds everything a verdict depends on: the patches and their rules, the files
they were made for, the release's files, and this package's own source, so an entry can
be absent but never out of date.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.compat.carried import CarriedPatch
from harness.compat.trees import Tree
from harness.files import sha256_file, write_atomic
from harness.models.compat import Cell, Verdict
from harness.paths import cache_dir

_CELLS = TypeAdapter(dict[str, Cell])


class Memory:
    """Verdicts on one series made for one base.

    Args:
        base_prints: The base tree's paths and fingerprints; empty when unknown.
    """

    def __init__(
        self,
        patches: Sequence[CarriedPatch],
        base_tag: str | None,
        base_prints: Mapping[str, str],
    ) -> None:
        self._paths = sorted({p for patch in patches for p in patch.paths})
        self._base_names = frozenset(base_prints)
        self._series = [
            _engine(),
            base_tag,
            [base_prints.get(path) for path in self._paths],
            [_patch(patch) for patch in patches],
        ]

    def recall(self, tree: Tree) -> dict[str, Cell] | None:
        """The verdicts at a release with these files, if they were reached before."""
        try:
            return _CELLS.validate_json(self._place(tree).read_bytes())
        except (OSError, ValidationError):
            return None

    def keep(self, tree: Tree, cells: Mapping[str, Cell]) -> None:
        """Remember verdicts; not those that say only what could not be read."""
        if all(cell.verdict is not Verdict.UNKNOWN for cell in cells.values()):
            write_atomic(self._place(tree), _CELLS.dump_json(dict(cells)))

    def _place(self, tree: Tree) -> Path:
        prints = tree.fingerprints()
        files = [prints.get(path) for path in self._paths]
        # A missing target may have moved to any file that the base does not have.
        others = (
            sorted((n, p) for n, p in prints.items() if n not in self._base_names)
            if None in files
            else []
        )
        key = _digest([self._series, files, others, tree.remote])
        return cache_dir() / "compat" / "verdicts" / f"{key}.json"


def _patch(patch: CarriedPatch) -> list[object]:
    return [
        patch.name,
        patch.strip,
        patch.requires,
        patch.failure or sha256_file(patch.file),
        patch.rules.model_dump_json() if patch.rules else "",
    ]


@cache
def _engine() -> str:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return _digest([version("ast-grep-py"), [sha256_file(file) for file in sources]])


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()
