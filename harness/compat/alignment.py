# SPDX-License-Identifier: Apache-2.0
"""Which line of one version of a file is which line of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

Lines = tuple[bytes, ...]


def split(data: bytes) -> Lines:
    """Lines with their ends, at line feeds only (a form feed is no line end)."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return tuple([*lines, parts[-1]] if parts[-1] else lines)


@dataclass(frozen=True)
class Alignment:
    """Lines that two versions have in common, in order.

    Attributes:
        to: For each line of the first version, its line in the second, or -1.
    """

    to: tuple[int, ...]
    length: int
    """Number of lines of the second version."""

    def before(self, line: int) -> tuple[int, int]:
        """The nearest common line above ``line``, in both versions (-1, -1: none)."""
        for i in range(line - 1, -1, -1):
            if self.to[i] >= 0:
                return i, self.to[i]
        return -1, -1

    def after(self, line: int) -> tuple[int, int]:
        """The nearest common line at or below ``line``, in both (lengths: none)."""
        for i in range(line, len(self.to)):
            if self.to[i] >= 0:
                return i, self.to[i]
        return len(self.to), self.length


@lru_cache(maxsize=512)
def align(first: Lines, second: Lines) -> Alignment:
    """Match the lines of two versions, longest common run first."""
    head = _common(first, second)
    tail = _common(first[head:][::-1], second[head:][::-1])
    to = [-1] * len(first)
    to[:head] = range(head)
    for i in range(tail):
        to[len(first) - 1 - i] = len(second) - 1 - i
    middle = SequenceMatcher(
        None, first[head : len(first) - tail], second[head : len(second) - tail], False
    )
    for i, j, n in middle.get_matching_blocks():
        to[head + i : head + i + n] = range(head + j, head + j + n)
    _raise_insertions(to, first, second)
    _raise_deletions(to, first)
    return Alignment(tuple(to), len(second))


def _raise_insertions(to: list[int], first: Lines, second: Lines) -> None:
    """Let each insertion begin as far up as its lines allow.

    Where inserted lines resemble their neighbours, the same text can be read as an
    insertion here or one line lower. Everyone has to read it alike.
    """
    for line in range(1, len(first)):
        b, start, end = line - 1, to[line - 1] + 1, to[line]
        if to[b] < 0 or end <= start:
            continue
        while b >= 0 and to[b] == start - 1 and first[b] == second[end - 1]:
            to[b] = end - 1
            b, start, end = b - 1, start - 1, end - 1


def _raise_deletions(to: list[int], first: Lines) -> None:
    """The same for lines that only the first version has."""
    end = 0
    while end < len(first):
        start = end
        while end < len(first) and to[end] < 0:
            end += 1
        above, below = start - 1, end
        joined = below == len(first) or above < 0 or to[below] == to[above] + 1
        if end > start and joined:
            while above >= 0 and to[above] >= 0 and first[above] == first[below - 1]:
                to[below - 1], to[above] = to[above], -1
                above, below = above - 1, below - 1
        end = max(end, start + 1)


def _common(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
