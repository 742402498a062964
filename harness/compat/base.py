# SPDX-License-Identifier: Apache-2.0
"""What a series was made for: its files before and after each patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.compat.alignment import Lines, split
from harness.compat.carried import CarriedPatch, Target
from harness.compat.threeway import Change, Misfit, apply_changes, changes_of
from harness.compat.trees import Tree
from harness.files import blob_id


@dataclass(frozen=True)
class Version:
    """One file before and after one patch; None where it does not exist."""

    before: Lines | None
    after: Lines | None
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Base:
    """A tree that the series fits exactly, or as many of its patches as do.

    Attributes:
        tag: The tree's tag; None when no known release fits any patch.
        versions: Per patch name, per path. A patch that does not fit is absent.
        misfits: Per patch name that does not fit: why.
    """

    tag: str | None
    versions: dict[str, dict[str, Version]] = field(default_factory=dict)
    misfits: dict[str, str] = field(default_factory=dict)
    files: dict[str, Lines | None] = field(default_factory=dict)
    """The tree's own content of every path that the series touches."""


def resolve(patches: Sequence[CarriedPatch], tree: Tree) -> Base:
    """Put the series on ``tree`` with no offset; skip patches that do not fit."""
    base = Base(tree.tag)
    state: dict[str, Lines | None] = {}
    for patch in patches:
        versions: dict[str, Version] = {}
        for target in patch.targets:
            if target.path not in state:
                data = tree.read(target.path)
                state[target.path] = None if data is None else split(data)
                base.files[target.path] = state[target.path]
            found = _fit(target, state[target.path])
            if isinstance(found, str):
                base.misfits[patch.name] = f"{target.path}: {found} at {tree.tag}"
                break
            versions[target.path] = found
        else:
            if patch.targets:
                base.versions[patch.name] = versions
                state.update({path: v.after for path, v in versions.items()})
    return base


def find_base(patches: Sequence[CarriedPatch], trees: Sequence[Tree]) -> Base:
    """The release that most patches fit exactly; the newest one of several.

    Args:
        trees: Candidates, oldest first.
    """
    best = Base(None)
    for tree in reversed(trees):
        found = resolve(patches, tree)
        if len(found.versions) > len(best.versions):
            best = found
        if len(best.versions) == sum(bool(patch.targets) for patch in patches):
            break
    return best


def _fit(target: Target, lines: Lines | None) -> Version | str:
    if target.creates:
        new = tuple(line for hunk in target.hunks for line in hunk.new)
        if lines is not None:
            return "the file that the patch creates exists"
        return Version(None, new, (Change(0, 0, new),))
    if lines is None:
        return "there is no such file"
    if target.old_blob and not blob_id(b"".join(lines)).startswith(target.old_blob):
        return f"the file is not the {target.old_blob[:12]} of the patch's index line"
    try:
        changes = changes_of(target.hunks, lines)
    except Misfit as error:
        return f"the hunk at line {error.hunk.at} of the patch does not match"
    return Version(
        lines, None if target.deletes else apply_changes(lines, changes), changes
    )
