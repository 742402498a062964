# SPDX-License-Identifier: Apache-2.0
"""Wrong variants of the patches, kept as edits of the patched tree."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from harness.models.base import Model, load
from harness.models.series import Number
from harness.paths import default_root

FOLDER = default_root() / "tests" / "fixtures" / "wrong"


class Wrong(Model):
    """One wrong variant, and how it has to be seen.

    Variants with the same ``tree`` change different files and are put in one tree.
    """

    patch: Number
    tree: Literal["first", "second"]
    file: str
    find: str
    replace: str
    fact: str
    scenario: str
    says: str
    """Part of a problem's message: the broken fact, where, and what became of it."""

    def apply(self, tree: Path) -> None:
        """Edit ``tree``; the text has to be there exactly once."""
        path = tree / self.file
        text = path.read_text()
        assert text.count(self.find) == 1, f"{self.file}: {self.find!r}"
        path.write_text(text.replace(self.find, self.replace))


def variants() -> dict[str, Wrong]:
    """All of them, by the names of their files."""
    return {path.stem: load(path, Wrong) for path in sorted(FOLDER.glob("*.yaml"))}
