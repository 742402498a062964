# SPDX-License-Identifier: Apache-2.0
"""The verdict on every patch of a series at one release.

The text is asked first, the syntax tree second. Equal bytes need no second signal.
Otherwise, where a patch has rules, they decide whether the release needs the patch at
all; only then does it matter how its text merges, and the merged text has to pass the
rules too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.compat.alignment import Lines, split
from harness.compat.base import Base
from harness.compat.carried import CarriedPatch
from harness.compat.moves import Moves, find_moves
from harness.compat.rules import Finding, look
from harness.compat.textual import FileText, combine, judge_file
from harness.compat.threeway import merge
from harness.compat.trees import Tree
from harness.errors import UsageError
from harness.models.compat import CARRIED, FAILED, Cell, HunkState, Verdict
from harness.models.rules import PatchRules

NO_RULES = (
    "the patch has no structural rules, so text alone can't tell a fix of upstream's "
    "own, or a release without the defect, from a conflict"
)
_OPEN = (
    HunkState.CONFLICT,
    HunkState.TOUCHING,
    HunkState.AMBIGUOUS,
    HunkState.IN,
)


@dataclass(frozen=True)
class Judgement:
    """One verdict, and the release's files with the patch on them.

    Attributes:
        writes: Path to new content (None: the file goes away); only for verdicts with
            which something is left to apply.
    """

    cell: Cell
    writes: dict[str, Lines | None] = field(default_factory=dict)


def check_rules(patches: Sequence[CarriedPatch], base: Base) -> None:
    """Hold every patch's rules to the files the patch was made for.

    Raises:
        UsageError: The rules don't see the defect before the patch, or don't see the
            fix after it.
    """
    for patch in patches:
        versions = base.versions.get(patch.name)
        if patch.rules is None or versions is None:
            continue
        before = look(patch.rules, _bytes({p: v.before for p, v in versions.items()}))
        after = look(patch.rules, _bytes({p: v.after for p, v in versions.items()}))
        for finding, defect, when in (
            (before, True, "before"),
            (after, False, "after"),
        ):
            if (finding.defect, finding.fix) != (defect, not defect):
                raise UsageError(
                    f"{when} the patch the rules see defect={finding.defect}, "
                    f"fix={finding.fix}",
                    where=f"rules of {patch.name} at {base.tag}",
                )


def judge_release(
    patches: Sequence[CarriedPatch],
    base: Base,
    tree: Tree,
    base_prints: Mapping[str, str],
    earlier: Mapping[str, Judgement] | None = None,
) -> dict[str, Judgement]:
    """Judge the series, in order, at one release.

    Args:
        earlier: Verdicts on patches that come before, which ``tree`` already has or
            will never have.
        base_prints: The base tree's paths and fingerprints; empty when it is unknown.
    """
    return _Release(patches, base, tree, base_prints).judge(earlier or {})


class _Release:
    def __init__(
        self,
        patches: Sequence[CarriedPatch],
        base: Base,
        tree: Tree,
        base_prints: Mapping[str, str],
    ) -> None:
        self._patches = patches
        self._base = base
        self._tree = tree
        paths = {path for patch in patches for path in patch.paths}
        content = {path: tree.read(path) for path in sorted(paths)}
        missing = {
            path: lines
            for path, lines in base.files.items()
            if lines is not None and content.get(path) is None
        }
        names = frozenset(base_prints)
        self._moves = (
            find_moves(missing, base_prints, names, tree)
            if missing and base_prints
            else Moves({}, {})
        )
        self._path = {p: move.path for p, move in self._moves.renamed.items()}
        for path, moved in self._path.items():
            content[path] = tree.read(moved)
        self._state: dict[str, Lines | None] = {
            path: None if data is None else split(data)
            for path, data in content.items()
        }

    def judge(self, earlier: Mapping[str, Judgement]) -> dict[str, Judgement]:
        judged = dict(earlier)
        for patch in self._patches:
            found = self._judge(patch)
            cell = found.cell
            needed = [
                n for n in patch.requires if judged[n].cell.verdict in FAILED
            ] or self._textual_requirement(patch, cell, judged)
            if needed and cell.verdict not in (Verdict.MISSING, Verdict.UNKNOWN):
                found = _blocked(found, needed, judged)
            judged[patch.name] = found
            for target in patch.targets:
                path = self._path.get(target.path, target.path)
                if path in found.writes:
                    self._state[target.path] = found.writes[path]
        return judged

    def _judge(self, patch: CarriedPatch) -> Judgement:
        if patch.failure:
            return Judgement(
                Cell(verdict=Verdict.UNKNOWN, signal="patch file", detail=patch.failure)
            )
        outside = [t.path for t in patch.targets if not self._covers(t.path)]
        if outside:
            detail = f"{self._tree.source} does not hold {', '.join(outside)}"
            hint = "give SOURCE=git or the path of a clone"
            return Judgement(
                Cell(verdict=Verdict.UNKNOWN, signal="paths", detail=detail, hint=hint)
            )
        versions = self._base.versions.get(patch.name, {})
        files = [
            judge_file(
                target,
                versions.get(target.path),
                self._path.get(target.path, target.path),
                self._state.get(target.path),
            )
            for target in patch.targets
        ]
        return _Verdict(patch, files, self._moves).judgement()

    def _covers(self, path: str) -> bool:
        return self._state.get(path) is not None or self._tree.covers(path)

    def _textual_requirement(
        self, patch: CarriedPatch, cell: Cell, judged: Mapping[str, Judgement]
    ) -> list[str]:
        """Earlier patches that failed and whose lines this one was made for."""
        if cell.verdict is not Verdict.CONFLICT:
            return []
        failed = [
            earlier
            for earlier in self._patches
            if earlier.name in judged
            and judged[earlier.name].cell.verdict in FAILED
            and set(earlier.paths) & set(patch.paths)
        ]
        for path, version in self._base.versions.get(patch.name, {}).items():
            lines = self._base.files.get(path)
            if lines is None or version.before is None:
                continue
            alone = merge(path, version.before, version.changes, lines)
            if failed and alone.having(HunkState.CONFLICT):
                return [earlier.name for earlier in failed]
        return []


class _Verdict:
    """One patch's verdict from both signals."""

    def __init__(
        self, patch: CarriedPatch, files: Sequence[FileText], moves: Moves
    ) -> None:
        self._patch = patch
        self._files = files
        self._moves = moves
        self._text = combine(files)

    def judgement(self) -> Judgement:
        text, rules = self._text, self._patch.rules
        if text is Verdict.EXACT:
            return self._with(text, "blob ids")
        if text is Verdict.MERGED:
            return self._with(text, "merge", "every change is already there")
        if all(file.verdict is Verdict.MISSING for file in self._files):
            return self._with(text, "paths", self._missing())
        if rules is None:
            signal = "paths" if text is Verdict.MISSING else "merge"
            return self._with(text, signal, self._merging(), NO_RULES)
        found = look(rules, self._sources(merged=False))
        if not found.defect and found.fix:
            return self._with(
                Verdict.MERGED_MODIFIED, "syntax tree", "; ".join(found.words)
            )
        if not found.defect:
            return self._with(
                Verdict.NOT_AFFECTED,
                "syntax tree",
                "no clause of the defect rule matches, nor does the fix",
            )
        return self._needed(text, rules, found)

    def _needed(self, text: Verdict, rules: PatchRules, found: Finding) -> Judgement:
        """The release has the defect: how does the patch merge, and does it help?"""
        if not all(file.resolvable() for file in self._files):
            signal = "paths" if text is Verdict.MISSING else "merge, syntax tree"
            detail = self._merging() or "; ".join(found.words)
            return self._with(text, signal, detail)
        after = look(rules, self._sources(merged=True))
        if not after.defect and after.fix:
            if text not in CARRIED:
                text = self._confirmed()
            return self._with(text, "merge, syntax tree", self._merging())
        if text not in CARRIED:
            return self._with(text, "merge, syntax tree", self._merging())
        detail = "merges cleanly, but the result does not have the fix"
        return self._with(Verdict.CONFLICT, "syntax tree", detail)

    def _confirmed(self) -> Verdict:
        """What text could not decide alone, once the syntax tree agrees."""
        if any(file.hunks(HunkState.IN) for file in self._files):
            return Verdict.PARTIAL
        moved = any(file.moved for file in self._files)
        return Verdict.MOVED if moved else Verdict.APPLIES

    def _sources(self, *, merged: bool) -> dict[str, bytes]:
        return _bytes(
            {
                file.target.path: file.resolved() if merged else file.theirs
                for file in self._files
            }
        )

    def _with(
        self, verdict: Verdict, signal: str, detail: str = "", hint: str = ""
    ) -> Judgement:
        keep = verdict in CARRIED
        telling = verdict not in (Verdict.EXACT, Verdict.MERGED)
        cell = Cell(
            verdict=verdict,
            signal=signal,
            detail=detail,
            hunks=tuple(h for f in self._files for h in f.hunks(*_OPEN))
            if telling
            else (),
            moved={f.target.path: f.path for f in self._files if f.moved},
            hint=hint if verdict not in (Verdict.APPLIES, Verdict.MOVED) else "",
        )
        writes = {f.path: f.resolved() for f in self._files} if keep else {}
        return Judgement(cell, writes)

    def _merging(self) -> str:
        """Where the patch's changes are, would go, or collide."""
        parts = []
        for file in self._files:
            if file.verdict is Verdict.MISSING:
                parts.append(f"{file.path} does not exist")
            elif file.note:
                parts.append(f"{file.path}: {file.note}")
            elif file.merge is not None:
                counts = [
                    f"{len(file.merge.having(state))} {_WORDS[state]}"
                    for state in HunkState
                    if file.merge.having(state)
                ]
                shift = _shift(file)
                parts.append(f"{file.path}: {', '.join(counts)}{shift}")
        return "; ".join(parts)

    def _missing(self) -> str:
        parts = []
        for file in self._files:
            text = f"{file.path} does not exist"
            if move := self._moves.ancestors.get(file.target.path):
                text += (
                    f"; {move.path} ({move.similarity:.0%} alike) is as close to "
                    "several targets, so it is the rename of none"
                )
            parts.append(text)
        return "; ".join(parts)


_WORDS = {
    HunkState.APPLIES: "change(s) apply",
    HunkState.IN: "already in",
    HunkState.TOUCHING: "whose neighbouring lines changed",
    HunkState.CONFLICT: "in conflict",
    HunkState.AMBIGUOUS: "with no one right place",
}


def _shift(file: FileText) -> str:
    assert file.merge is not None
    shifts = [o.line - o.change.start for o in file.merge.having(HunkState.APPLIES)]
    if not shifts or not any(shifts):
        return ""
    low, high = min(shifts), max(shifts)
    span = f"{low:+d}" if low == high else f"{low:+d} to {high:+d}"
    return f" ({span} lines)"


def _blocked(
    found: Judgement, needed: Sequence[str], judged: Mapping[str, Judgement]
) -> Judgement:
    if found.cell.verdict not in CARRIED and found.cell.verdict not in (
        Verdict.CONFLICT,
        Verdict.AMBIGUOUS,
    ):
        return found
    names = ", ".join(f"{n} ({judged[n].cell.verdict})" for n in needed)
    detail = f"needs {names}; alone it would be {found.cell.verdict}"
    return Judgement(
        found.cell.model_copy(
            update={
                "verdict": Verdict.BLOCKED,
                "signal": "requirement",
                "detail": detail,
            }
        )
    )


def _bytes(files: Mapping[str, Lines | None]) -> dict[str, bytes]:
    return {p: b"".join(lines) for p, lines in files.items() if lines is not None}
