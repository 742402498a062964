# SPDX-License-Identifier: Apache-2.0
"""The first signal: what the text alone says of one file, and of a whole patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.compat.alignment import Lines
from harness.compat.base import Version
from harness.compat.carried import Target
from harness.compat.threeway import Merge, merge, search
from harness.models.compat import Hunk, HunkState, Verdict


@dataclass(frozen=True)
class FileText:
    """What becomes of one target.

    Attributes:
        path: Where the file is in the release; the target's own path when missing.
        theirs: Its content there, earlier patches of the series included.
        verdict: EXACT, MERGED, APPLIES, PARTIAL, CONFLICT, AMBIGUOUS or MISSING.
        merged: Content with the patch, as far as it applies; None: no such file.
    """

    target: Target
    path: str
    theirs: Lines | None
    verdict: Verdict
    merged: Lines | None
    merge: Merge | None = None
    note: str = ""

    def resolvable(self) -> bool:
        """Whether every change has a place, if only a second signal confirms it."""
        if self.verdict in (Verdict.EXACT, Verdict.MERGED):
            return True
        return self.merge is not None and not self.merge.having(HunkState.CONFLICT)

    def resolved(self) -> Lines | None:
        """Content with all changes that have a place."""
        if self.merge is None:
            return self.merged
        return self.merge.carry(
            HunkState.APPLIES, HunkState.TOUCHING, HunkState.AMBIGUOUS
        )

    @property
    def moved(self) -> bool:
        return self.path != self.target.path

    def hunks(self, *states: HunkState) -> tuple[Hunk, ...]:
        """The hunks in these states, for the report."""
        return tuple(
            Hunk(
                path=self.path,
                line=outcome.line + 1,
                symbol=outcome.symbol,
                added=len(outcome.change.new),
                removed=outcome.change.end - outcome.change.start,
                state=outcome.state,
                note=outcome.note,
            )
            for outcome in (self.merge.outcomes if self.merge else ())
            if outcome.state in states
        )


def judge_file(
    target: Target, version: Version | None, path: str, theirs: Lines | None
) -> FileText:
    """Judge one target by its text.

    Args:
        version: The file before and after the patch; None when the file that the
            patch was made for is unknown.
        path: Where the file is in the release.
    """

    def result(
        verdict: Verdict,
        merged: Lines | None,
        merge: Merge | None = None,
        note: str = "",
    ) -> FileText:
        return FileText(target, path, theirs, verdict, merged, merge, note)

    if target.creates:
        new = tuple(line for hunk in target.hunks for line in hunk.new)
        if theirs is None:
            return result(Verdict.EXACT, new)
        if theirs == new:
            return result(Verdict.MERGED, theirs)
        return result(Verdict.CONFLICT, theirs, note="the new file exists already")
    if theirs is None:
        verdict = Verdict.MERGED if target.deletes else Verdict.MISSING
        return result(verdict, None)
    if version is not None and version.before is not None:
        if theirs == version.before:
            return result(Verdict.EXACT, version.after)
        if theirs == version.after:
            return result(Verdict.MERGED, theirs)
        if target.deletes:
            return result(Verdict.CONFLICT, theirs, note="the deleted file changed")
        found = merge(path, version.before, version.changes, theirs)
    else:
        found = search(target.hunks, theirs)
    return result(_verdict(found), found.carry(HunkState.APPLIES), found)


def combine(files: Sequence[FileText]) -> Verdict:
    """The text's verdict on a patch from those on its files."""
    seen = {file.verdict for file in files}
    for verdict in (Verdict.MISSING, Verdict.CONFLICT, Verdict.AMBIGUOUS):
        if verdict in seen:
            return verdict
    if seen <= {Verdict.MERGED}:
        return Verdict.MERGED
    if Verdict.MERGED in seen or Verdict.PARTIAL in seen:
        return Verdict.PARTIAL
    if any(file.moved for file in files):
        return Verdict.MOVED
    return Verdict.EXACT if seen <= {Verdict.EXACT} else Verdict.APPLIES


def _verdict(found: Merge) -> Verdict:
    states = {outcome.state for outcome in found.outcomes}
    if states & {HunkState.CONFLICT, HunkState.TOUCHING}:
        return Verdict.CONFLICT
    if HunkState.AMBIGUOUS in states:
        return Verdict.AMBIGUOUS
    if states <= {HunkState.IN}:
        return Verdict.MERGED
    return Verdict.PARTIAL if HunkState.IN in states else Verdict.APPLIES
