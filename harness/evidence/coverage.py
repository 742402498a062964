# SPDX-License-Identifier: Apache-2.0
"""Which changed lines of a patch can be executed, and which of them were."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from types import CodeType

from harness.models.summary import FileExercise


def executable_lines(source: str) -> frozenset[int]:
    """Line numbers for which the compiled module has instructions.

    These are the lines that a tracer can see; comments, blank lines, docstrings and
    the inner lines of some expressions are not among them.

    Raises:
        SyntaxError: The source does not compile.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = compile(source, "<source>", "exec", dont_inherit=True)
    found: set[int] = set()
    pending = [module]
    while pending:
        code = pending.pop()
        found |= {line for _, _, line in code.co_lines() if line}
        pending += [c for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset(found)


def changed_lines(before: str, after: str) -> frozenset[int]:
    """Numbers in ``after`` of the lines that are new or changed."""
    matcher = difflib.SequenceMatcher(
        a=before.splitlines(), b=after.splitlines(), autojunk=False
    )
    found: set[int] = set()
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind in ("insert", "replace"):
            found |= set(range(start + 1, end + 1))
    return frozenset(found)


def exercise(
    path: str, before: str, after: str, executed: Iterable[int]
) -> FileExercise:
    """What was run of one file's changed lines.

    Args:
        executed: Line numbers of ``after`` that measured processes ran.

    Raises:
        SyntaxError: ``after`` does not compile.
    """
    changed = changed_lines(before, after) & executable_lines(after)
    return FileExercise(
        path=path,
        changed=tuple(sorted(changed)),
        executed=tuple(sorted(changed & set(executed))),
        removed_only=not changed,
    )
