# SPDX-License-Identifier: Apache-2.0
"""Shell patterns of scenarios, facts and ranks, with captured integers."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Iterable

from harness.models.claims import Ranks


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether ``name`` fits one of the shell patterns."""
    return any(capture(name, pattern) is not None for pattern in patterns)


def capture(name: str, pattern: str) -> dict[str, int] | None:
    """The integers at ``{...}`` in ``pattern`` if ``name`` fits it, else None."""
    found = _compiled(pattern).fullmatch(name)
    if found is None:
        return None
    return {key: int(value) for key, value in found.groupdict().items()}


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = []
    end = 0
    for found in re.finditer(r"\{([a-z_]+)\}", pattern):
        parts.append(_shell(pattern[end : found.start()]))
        parts.append(rf"(?P<{found.group(1)}>\d+)")
        end = found.end()
    parts.append(_shell(pattern[end:]))
    return re.compile("".join(parts))


def _shell(text: str) -> str:
    if not text:
        return ""
    # fnmatch wraps its result to match whole strings; the inside is what we need.
    return fnmatch.translate(text).removeprefix("(?s:").removesuffix(r")\Z")


def has_rank(ranks: Ranks, rank: int, count: int) -> bool:
    """Whether a claim for ``ranks`` speaks of rank number ``rank`` of ``count``."""
    match ranks:
        case "all":
            return True
        case "first":
            return rank == 0
        case "last":
            return rank == count - 1
        case _:
            return rank in ranks
