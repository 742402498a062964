# SPDX-License-Identifier: Apache-2.0
"""Where each change of a patch goes in another version of its file.

A three-way merge, one run of changed lines at a time. git's own answers do not serve:
``apply`` and ``am`` search the whole file for a hunk's context, and take the first
place that looks alike (measured in the tests); ``merge-file`` says only whether all of
it went well. Here a change applies when the lines it replaces and one line on each side
are unchanged in the other version, which is git's own condition for a clean merge, and
when the place is the right one: in the same class or function, and not one of several
places that look alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.compat.alignment import Alignment, Lines, align
from harness.compat.diff import DiffHunk
from harness.compat.symbols import Symbols, symbols_of
from harness.models.compat import HunkState

CONTEXT = 3
"""Lines around a change that say which place it is."""


class Misfit(ValueError):
    """A hunk is not at its stated place in the file it is said to be made for."""

    def __init__(self, hunk: DiffHunk) -> None:
        self.hunk = hunk
        super().__init__(f"the hunk at line {hunk.at} does not match")


@dataclass(frozen=True)
class Change:
    """Lines ``[start, end)`` of a file become ``new``."""

    start: int
    end: int
    new: Lines


@dataclass(frozen=True)
class Outcome:
    """What becomes of one change in the other version.

    Attributes:
        line: Where it is or would go there, from 0.
        symbol: The class or function there.
    """

    change: Change
    state: HunkState
    line: int
    symbol: str
    note: str = ""


@dataclass(frozen=True)
class Merge:
    """All changes to one file, in the patch's order."""

    outcomes: tuple[Outcome, ...]
    theirs: Lines

    def having(self, state: HunkState) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.state is state)

    def carry(self, *states: HunkState) -> Lines:
        """The other version with the changes of these states put in."""
        landed = [
            Change(o.line, o.line + o.change.end - o.change.start, o.change.new)
            for o in self.outcomes
            if o.state in states
        ]
        return apply_changes(self.theirs, sorted(landed, key=lambda c: c.start))


def changes_of(hunks: Iterable[DiffHunk], before: Lines) -> tuple[Change, ...]:
    """The runs of changed lines; the hunks must be exactly where they say.

    Raises:
        Misfit: A hunk's old lines are not at its place in ``before``.
    """
    found: list[Change] = []
    for hunk in hunks:
        if before[hunk.start : hunk.start + len(hunk.old)] != hunk.old:
            raise Misfit(hunk)
        line = hunk.start
        start, new = line, list[bytes]()
        for tag, content in (*hunk.lines, (" ", b"")):
            if tag == " ":
                if line > start or new:
                    floor = found[-1].end if found else 0
                    change = _trimmed(Change(start, line, tuple(new)), before)
                    if change.new or change.start < change.end:
                        found.append(_raised(change, before, floor))
                line += 1
                start, new = line, []
            elif tag == "-":
                line += 1
            else:
                new.append(content)
    return tuple(found)


def apply_changes(lines: Lines, changes: Sequence[Change]) -> Lines:
    """``lines`` with non-overlapping ``changes``, given in order."""
    result = list(lines)
    for change in reversed(changes):
        result[change.start : change.end] = change.new
    return tuple(result)


def merge(path: str, before: Lines, changes: Sequence[Change], theirs: Lines) -> Merge:
    """Carry ``changes`` from ``before`` to ``theirs``."""
    alignment = align(before, theirs)
    places = _Places(path, before, theirs)
    outcomes: list[Outcome] = []
    for change in changes:
        line = _landing(change, alignment)
        if line is None:
            outcomes.append(_overlapping(change, changes, alignment, places))
        else:
            outcomes.append(places.judge(change, line))
    return Merge(tuple(outcomes), theirs)


def search(hunks: Sequence[DiffHunk], theirs: Lines) -> Merge:
    """Carry hunks whose original file is unknown: by their text alone."""
    outcomes: list[Outcome] = []
    for hunk in hunks:
        old, new = _find(hunk.old, theirs), _find(hunk.new, theirs)
        change = Change(hunk.start, hunk.start + len(hunk.old), hunk.new)
        if len(old) == 1 and not new:
            state, line, note = HunkState.APPLIES, old[0], ""
        elif new and not old:
            state, line, note = HunkState.IN, new[0], ""
        elif old:
            state, line = HunkState.AMBIGUOUS, old[0]
            note = f"its lines occur {len(old)} times before, {len(new)} after"
        else:
            state, line, note = HunkState.CONFLICT, hunk.start, "its lines are not here"
        outcomes.append(Outcome(change, state, line, "", note))
    return Merge(tuple(outcomes), theirs)


def _trimmed(change: Change, before: Lines) -> Change:
    """The same change without lines that it takes out only to put them back.

    git never writes such a patch; in one written by hand they would hide that it is an
    insertion, which can be read as one somewhere else.
    """
    start, end, new = change.start, change.end, change.new
    while start < end and new and before[end - 1] == new[-1]:
        end, new = end - 1, new[:-1]
    while start < end and new and before[start] == new[0]:
        start, new = start + 1, new[1:]
    return Change(start, end, new)


def _raised(change: Change, before: Lines, floor: int) -> Change:
    """The same change begun as far up as possible (see alignment)."""
    start, end, new = change.start, change.end, change.new
    if start == end:
        while start > floor and before[start - 1] == new[-1]:
            new = (before[start - 1], *new[:-1])
            start -= 1
        end = start
    elif not new:
        while start > floor and before[start - 1] == before[end - 1]:
            start, end = start - 1, end - 1
    return Change(start, end, new)


def _landing(change: Change, alignment: Alignment) -> int | None:
    """The line where the change applies cleanly, None if its lines changed."""
    count = len(alignment.to)
    above = alignment.to[change.start - 1] if change.start > 0 else -1
    below = alignment.to[change.end] if change.end < count else alignment.length
    if (change.start > 0 and above < 0) or below < 0:
        return None
    inside = alignment.to[change.start : change.end]
    expected = range(above + 1, above + 1 + len(inside))
    if tuple(inside) != tuple(expected) or below != above + 1 + len(inside):
        return None
    return above + 1


def _intact(change: Change, alignment: Alignment) -> int | None:
    """Where all lines that the change replaces are, in one piece; None if nowhere."""
    inside = alignment.to[change.start : change.end]
    if not inside or inside[0] < 0:
        return None
    expected = tuple(range(inside[0], inside[0] + len(inside)))
    return inside[0] if tuple(inside) == expected else None


def _overlapping(
    change: Change,
    changes: Sequence[Change],
    alignment: Alignment,
    places: _Places,
) -> Outcome:
    """Both sides changed these lines: alike, alike in essence, or in conflict."""
    upper, their_upper = alignment.before(change.start)
    lower, their_lower = alignment.after(change.end)
    region = places.theirs[their_upper + 1 : their_lower]
    within = [c for c in changes if upper < c.start and c.end <= lower]
    shifted = [
        replace(c, start=c.start - upper - 1, end=c.end - upper - 1) for c in within
    ]
    ours = apply_changes(places.before[upper + 1 : lower], shifted)
    line = their_upper + 1
    outcome = Outcome(change, HunkState.IN, line, places.theirs_at(line))
    intact = _intact(change, alignment)
    if intact is not None and ours != region:
        judged = places.judge(change, intact)
        if judged.state is HunkState.APPLIES:
            note = "its own lines are unchanged, the ones next to it are not"
            return replace(judged, state=HunkState.TOUCHING, note=note)
    if ours == region:
        return outcome
    if _has_essence(change, places.before, region):
        return replace(outcome, note="upstream also changed the lines around it")
    if change.start == change.end and not region:
        note = "the lines around it are gone"
    else:
        note = f"upstream has {len(region)} other line(s) here"
    return replace(outcome, state=HunkState.CONFLICT, note=note)


def _has_essence(change: Change, before: Lines, region: Lines) -> bool:
    """Whether ``region`` has the new lines in one piece, and none of the old ones."""
    old = {line for line in before[change.start : change.end] if line.strip()}
    if not change.new:
        return not old & set(region) and bool(region)
    if (old - set(change.new)) & set(region):
        return False
    telling = any(sum(map(_is_word, line)) >= 4 for line in change.new)
    return telling and bool(_find(change.new, region))


def _is_word(byte: int) -> bool:
    return chr(byte).isalnum()


def _find(needle: Lines, lines: Lines) -> list[int]:
    if not needle:
        return []
    return [
        i
        for i, line in enumerate(lines[: len(lines) - len(needle) + 1])
        if line == needle[0] and lines[i : i + len(needle)] == needle
    ]


class _Places:
    """Whether a place in the other version is the one that a change was made for."""

    def __init__(self, path: str, before: Lines, theirs: Lines) -> None:
        self.before = before
        self.theirs = theirs
        self._before_symbols = symbols_of(path, b"".join(before))
        self._their_symbols = symbols_of(path, b"".join(theirs))

    def theirs_at(self, line: int) -> str:
        return self._their_symbols.at(line)

    def judge(self, change: Change, line: int) -> Outcome:
        """The outcome of a change that merges cleanly at ``line``."""
        # An insertion belongs with the line above it.
        up = 1 if change.start == change.end else 0
        expected = self._before_symbols.at(change.start - up)
        found = self._their_symbols.at(line - up)
        outcome = Outcome(change, HunkState.APPLIES, line, found)
        if self._is_near_by(change, line):
            note = "upstream has the same new lines next to this place"
            return replace(outcome, state=HunkState.AMBIGUOUS, note=note)
        context, start, here = self._context(change, line)
        if found != expected and (
            self._their_symbols.extent(expected) or len(_find(context, self.theirs)) > 1
        ):
            note = f"lands in {_named(found)}, was made for {_named(expected)}"
            return replace(outcome, state=HunkState.AMBIGUOUS, note=note)
        if self._is_one_place(context, start, here, found, self._their_symbols):
            return outcome
        note = f"the lines around it occur {len(_find(context, self.theirs))} times"
        return replace(outcome, state=HunkState.AMBIGUOUS, note=note)

    def _is_near_by(self, change: Change, line: int) -> bool:
        """Whether the new lines came to this neighbourhood already.

        Among lines that repeat, the same insertion can be read as one a few lines
        further on; applying it once more is the worst mistake to make.
        """
        reach = len(change.new) + CONTEXT
        end = line + change.end - change.start
        ours = self.before[max(0, change.start - reach) : change.end + reach]
        theirs = self.theirs[max(0, line - reach) : end + reach]
        return len(_find(change.new, theirs)) > len(_find(change.new, ours))

    def _context(self, change: Change, line: int) -> tuple[Lines, int, int]:
        """The widest context that both places share, and where it begins in each."""
        for width in range(CONTEXT, -1, -1):
            up = min(width, change.start, line)
            start, end = change.start - up, change.end + width
            context = self.before[start:end]
            here = line - up
            if self.theirs[here : here + len(context)] == context:
                return context, start, here
        return (), change.start, line

    def _is_one_place(
        self, context: Lines, start: int, here: int, symbol: str, symbols: Symbols
    ) -> bool:
        theirs, ours = _find(context, self.theirs), _find(context, self.before)
        if len(theirs) <= 1:
            return True
        extent = symbols.extent(symbol) if symbol else None
        if extent and sum(extent[0] <= i < extent[1] for i in theirs) == 1:
            return True
        if len(ours) != len(theirs):
            return False
        return ours.index(start) == theirs.index(here)


def _named(symbol: str) -> str:
    return symbol or "the module itself"
