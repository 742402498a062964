# SPDX-License-Identifier: Apache-2.0
"""The second signal: is the defect in a file, is a fix, by its syntax tree.

Text can't tell a fix that upstream wrote in its own words from a conflict, nor a
release that never had the defect. A rule is an ast-grep rule object, so a reviewer can
read it, and each is paired with a sentence that says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ast_grep_py import SgNode

from harness.compat.syntax import tree
from harness.errors import UsageError
from harness.models.base import load
from harness.models.rules import Clause, PatchRules, TargetRules


@dataclass(frozen=True)
class Finding:
    """What the rules see in one file, or over all files of a patch.

    Attributes:
        defect: The defect is there.
        fix: A fix is there, whoever wrote it.
        words: The clauses that hold, with the lines (from 1) where they do.
    """

    defect: bool
    fix: bool
    words: tuple[str, ...] = ()


def load_rules(folder: Path, number: str) -> PatchRules | None:
    """The rules of patch ``number`` in ``folder``; None when it has none.

    Raises:
        UsageError: The file does not fit the model, or a rule is no ast-grep rule.
    """
    path = folder / f"{number}.yaml"
    if not path.exists():
        return None
    rules = load(path, PatchRules)
    for target in rules.targets:
        for clause in (*target.defect, *target.fix):
            _check(clause, rules.language, path)
    return rules


def look(rules: PatchRules, sources: Mapping[str, bytes]) -> Finding:
    """Judge the files of one tree.

    Args:
        sources: Target path (as in the rules) to content; paths absent from the tree
            are left out. The defect is there when any file has it; the fix when every
            file that is there has it.
    """
    seen = [
        _look_at(target, rules.language, sources[target.path])
        for target in rules.targets
        if target.path in sources
    ]
    return Finding(
        defect=any(finding.defect for finding in seen),
        fix=bool(seen) and all(finding.fix for finding in seen),
        words=tuple(word for finding in seen for word in finding.words),
    )


def _look_at(target: TargetRules, language: str, data: bytes) -> Finding:
    root = tree(data, language)
    defects = [(clause, _lines(root, clause)) for clause in target.defect]
    fixes = [(clause, _lines(root, clause)) for clause in target.fix]
    words = [
        f"{target.path}:{lines[0]}: {clause.says}"
        for clause, lines in (*defects, *fixes)
        if lines
    ]
    return Finding(
        defect=any(lines for _, lines in defects),
        fix=all(lines for _, lines in fixes),
        words=tuple(words),
    )


def _lines(root: SgNode, clause: Clause) -> list[int]:
    return [node.range().start.line + 1 for node in root.find_all(_config(clause))]


def _config(clause: Clause) -> Any:
    config: dict[str, Any] = {"rule": clause.rule}
    if clause.constraints:
        config["constraints"] = clause.constraints
    if clause.utils:
        config["utils"] = clause.utils
    return config


def _check(clause: Clause, language: str, path: Path) -> None:
    try:
        _lines(tree(b"", language), clause)
    except Exception as error:
        # ast-grep raises plain RuntimeError, ValueError or TypeError, by cause.
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"not an ast-grep rule ({first}): {clause.says}", where=str(path)
        ) from error
