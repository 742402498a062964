# SPDX-License-Identifier: Apache-2.0
"""Where a target went when a release has no file of its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.compat.alignment import Lines, align, split
from harness.compat.trees import Tree

SIMILAR = 0.5
"""Share of common lines from which a file counts as renamed: git's own default."""
_REMOTE_CANDIDATES = 3
_LOCAL_CANDIDATES = 200


@dataclass(frozen=True)
class Move:
    """A file that looks like the target.

    Attributes:
        path: Its path in the release.
        similarity: Share of the longer file's lines that both have, 0 to 1.
    """

    path: str
    similarity: float


@dataclass(frozen=True)
class Moves:
    """What became of the missing targets of one release.

    Attributes:
        renamed: Target to the one file that replaces it.
        ancestors: Target to a file that several targets look like: not a rename of
            any one of them, but worth knowing.
    """

    renamed: dict[str, Move]
    ancestors: dict[str, Move]


def find_moves(
    missing: Mapping[str, Lines],
    prints: Mapping[str, str],
    base_names: frozenset[str],
    tree: Tree,
) -> Moves:
    """Look for the files that replace ``missing`` targets in ``tree``.

    A rename, as in git, pairs a path that only the base has with one that only the
    release has. A file that is the best match of more than one target is the rename of
    none: nothing says whose change it should take.

    Args:
        missing: Target path to its content at the base.
        prints: Target path to its fingerprint at the base, where it has one.
        base_names: Every path of the base tree.
    """
    theirs = tree.fingerprints()
    fresh = [name for name in theirs if name not in base_names]
    best: dict[str, Move] = {}
    for path, content in missing.items():
        same = [n for n in fresh if theirs[n] == prints.get(path)]
        if same:
            best[path] = Move(min(same), 1.0)
            continue
        limit = _REMOTE_CANDIDATES if tree.remote else _LOCAL_CANDIDATES
        candidates = _likely(path, fresh, limit)
        tree.prepare(candidates)
        rated = [Move(name, _similarity(content, tree, name)) for name in candidates]
        close = [move for move in rated if move.similarity >= SIMILAR]
        if close:
            best[path] = max(close, key=lambda move: move.similarity)
    claims = [move.path for move in best.values()]
    renamed = {p: move for p, move in best.items() if claims.count(move.path) == 1}
    shared = {p: move for p, move in best.items() if claims.count(move.path) > 1}
    return Moves(renamed, shared)


def _likely(path: str, names: Iterable[str], limit: int) -> list[str]:
    """Names that share the most words with ``path``, best first."""
    wanted = _words(path)

    def rank(name: str) -> tuple[bool, int, int]:
        same_name = PurePosixPath(name).name == PurePosixPath(path).name
        return same_name, len(wanted & _words(name)), -len(name)

    suffix = PurePosixPath(path).suffix
    alike = [name for name in names if PurePosixPath(name).suffix == suffix]
    return sorted(alike, key=rank, reverse=True)[:limit]


def _words(path: str) -> frozenset[str]:
    return frozenset(re.split(r"[/._-]", path))


def _similarity(content: Lines, tree: Tree, name: str) -> float:
    lines = split(tree.read(name) or b"")
    longer = max(len(content), len(lines))
    if not longer or min(len(content), len(lines)) < SIMILAR * longer:
        return 0.0
    common = sum(line >= 0 for line in align(content, lines).to)
    return common / longer
