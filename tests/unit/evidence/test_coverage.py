# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from harness.evidence.coverage import changed_lines, executable_lines, exercise

BEFORE = '''\
"""Doc."""

import os


def f(x):
    """Doc."""
    # A comment.
    return x
'''
AFTER = BEFORE.replace(
    "    return x\n", "    if x:\n        # Why.\n        return -x\n    return x\n"
)


def test_comments_docstrings_and_blanks_are_not_executable() -> None:
    assert executable_lines(BEFORE) >= {3, 6, 9}
    assert not executable_lines(BEFORE) & {2, 4, 5, 7, 8}


def test_nested_code_counts() -> None:
    assert {1, 2, 3} <= executable_lines("def f():\n def g():\n  return 1\n return g\n")


def test_changed_lines_are_numbered_as_patched() -> None:
    assert changed_lines(BEFORE, AFTER) == {9, 10, 11}
    assert changed_lines(BEFORE, BEFORE) == set()


def test_exercise_names_what_nothing_ran() -> None:
    found = exercise("f.py", BEFORE, AFTER, executed=[1, 3, 9, 12])
    assert (found.changed, found.executed, found.missing) == ((9, 11), (9,), (11,))
    assert not found.removed_only


def test_a_patch_that_only_removes() -> None:
    found = exercise("f.py", AFTER, BEFORE, executed=[9])
    assert found.removed_only
    assert found.changed == ()
