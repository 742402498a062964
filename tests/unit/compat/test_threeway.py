# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from harness.compat.alignment import split
from harness.compat.diff import DiffHunk
from harness.compat.threeway import Change, apply_changes, changes_of, merge
from harness.git import Git
from harness.models.compat import HunkState

# Few distinct lines, so that context repeats and insertions look like neighbours.
LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"}\n", b"\n"]), max_size=14)


@st.composite
def edits(draw: st.DrawFn, lines: tuple[bytes, ...]) -> tuple[Change, ...]:
    """Changes to ``lines`` with at least one unchanged line between any two."""
    found: list[Change] = []
    floor = 0
    for _ in range(draw(st.integers(1, 3))):
        if floor > len(lines):
            break
        start = draw(st.integers(floor, len(lines)))
        end = draw(st.integers(start, min(len(lines), start + 3)))
        new = tuple(
            draw(st.lists(st.sampled_from([b"x\n", b"a\n", b"}\n"]), max_size=3))
        )
        if new != lines[start:end]:
            found.append(Change(start, end, new))
            floor = end + 1
    return tuple(found)


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[bytes, ...], tuple[Change, ...]]:
    lines = tuple(draw(LINES))
    changes = draw(edits(lines))
    assume(changes)
    return lines, changes


@settings(max_examples=400, deadline=None)
@example(
    # An insertion written as a replacement, in line with the same line above it.
    ((b"}\n", b"a\n", b"a\n"), (Change(1, 3, (b"}\n", b"a\n", b"a\n")),))
)
@given(cases())
def test_a_patch_that_is_there_is_never_said_to_apply(
    case: tuple[tuple[bytes, ...], tuple[Change, ...]],
) -> None:
    """Whatever the lines look like, and though another line of the file changed."""
    lines, edited = case
    before = (b"first\n", *lines, *(f"tail {n}\n".encode() for n in range(5)))
    shifted = [Change(c.start + 1, c.end + 1, c.new) for c in edited]
    after = apply_changes(before, shifted)
    assume(after != before)
    theirs = (b"FIRST\n", *after[1:])
    found = merge("x.txt", before, _hunked(before, shifted), theirs)
    assert not {o.state for o in found.outcomes} <= {HunkState.APPLIES}


def test_a_line_put_back_as_it_was_is_no_change() -> None:
    before = (b"a\n", b"b\n", b"c\n")
    assert _hunked(before, [Change(1, 2, (b"b\n",))]) == ()
    assert _hunked(before, [Change(1, 2, (b"b\n", b"x\n"))]) == (
        Change(2, 2, (b"x\n",)),
    )


@given(cases())
def test_on_their_own_file_changes_give_the_patched_file(
    case: tuple[tuple[bytes, ...], tuple[Change, ...]],
) -> None:
    before, changes = case
    found = merge("x.txt", before, changes, before)
    if not found.having(HunkState.AMBIGUOUS):
        assert found.carry(HunkState.APPLIES) == apply_changes(before, changes)


UNIQUE = tuple(f"line {n}\n".encode() for n in range(24))


@st.composite
def unique_edits(draw: st.DrawFn, word: str) -> tuple[Change, ...]:
    found: list[Change] = []
    floor = 0
    for n in range(draw(st.integers(1, 3))):
        start = draw(st.integers(floor, len(UNIQUE)))
        end = draw(st.integers(start, min(len(UNIQUE), start + 2)))
        new = tuple(
            f"{word} {n}.{i}\n".encode() for i in range(draw(st.integers(0, 2)))
        )
        if new or end > start:
            found.append(Change(start, end, new))
            floor = end + 1
        if floor > len(UNIQUE):
            break
    return tuple(found)


@settings(max_examples=60, deadline=None)
@given(unique_edits("ours"), unique_edits("theirs"))
def test_a_clean_merge_is_git_s_clean_merge(
    ours: tuple[Change, ...], theirs: tuple[Change, ...]
) -> None:
    assume(ours and theirs)
    other = apply_changes(UNIQUE, theirs)
    found = merge("x.txt", UNIQUE, ours, other)
    clean = {o.state for o in found.outcomes} <= {HunkState.APPLIES}
    status, text = _git_merge(UNIQUE, apply_changes(UNIQUE, ours), other)
    if clean:
        assert (status, text) == (0, b"".join(found.carry(HunkState.APPLIES)))
    if status == 0 and not found.having(HunkState.IN):
        assert clean


def _git_merge(
    base: tuple[bytes, ...], ours: tuple[bytes, ...], theirs: tuple[bytes, ...]
) -> tuple[int, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for name, lines in (("ours", ours), ("base", base), ("theirs", theirs)):
            file = Path(folder) / name
            file.write_bytes(b"".join(lines))
            names.append(str(file))
        done = Git(Path(folder)).run("merge-file", "-p", *names, check=False)
    return done.status, done.stdout


def _hunked(before: tuple[bytes, ...], changes: list[Change]) -> tuple[Change, ...]:
    """The changes as they come out of a patch's hunks."""
    lines: list[tuple[str, bytes]] = []
    at = 0
    for change in changes:
        lines += [(" ", line) for line in before[at : change.start]]
        lines += [("-", line) for line in before[change.start : change.end]]
        lines += [("+", line) for line in change.new]
        at = change.end
    lines += [(" ", line) for line in before[at:]]
    return changes_of([DiffHunk(0, tuple(lines), 1)], before)


REPEATED = b"""\
def one(x):
    a = x
    b = a
    c = b
    return c

def two(x):
    a = x
    b = a
    c = b
    return c
"""


def test_a_change_stays_in_its_function() -> None:
    """Upstream put a third look-alike above; the context alone fits three places."""
    before = split(REPEATED)
    theirs = split(REPEATED.replace(b"def one", b"def none", 1) + b"\n" + REPEATED)
    change = Change(9, 9, (b"    check(b)\n",))
    found = merge("x.py", before, [change], theirs)
    (outcome,) = found.outcomes
    if outcome.state is HunkState.APPLIES:
        assert outcome.symbol == "two"
    else:
        assert outcome.state is HunkState.AMBIGUOUS


def test_without_functions_repeated_places_are_ambiguous() -> None:
    block = b"start\n  a\n  b\n  c\n  d\nend\n"
    before = split(b"# head\n" + block + block)
    theirs = split(b"# head\n" + block + block + block + b"# tail\n")
    found = merge("x.txt", before, [Change(10, 10, (b"  new\n",))], theirs)
    assert [o.state for o in found.outcomes] == [HunkState.AMBIGUOUS]


def test_unchanged_lines_beside_changed_ones_are_touching() -> None:
    before = split(b"one\ntwo\nthree\nfour\n")
    theirs = split(b"one\nTWO\nthree\nfour\n")
    found = merge("x.txt", before, [Change(2, 3, (b"3\n",))], theirs)
    assert [o.state for o in found.outcomes] == [HunkState.TOUCHING]
    assert found.carry(HunkState.APPLIES) == theirs
    expected = split(b"one\nTWO\n3\nfour\n")
    assert found.carry(HunkState.TOUCHING) == expected


def test_no_newline_at_the_end_is_kept() -> None:
    before = split(b"one\ntwo\nthree")
    theirs = split(b"zero\none\ntwo\nthree")
    found = merge("x.txt", before, [Change(1, 2, (b"2\n",))], theirs)
    assert b"".join(found.carry(HunkState.APPLIES)) == b"zero\none\n2\nthree"
