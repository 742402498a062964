# SPDX-License-Identifier: Apache-2.0
"""Every patch at every release: read the series, fetch, judge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from harness.compat.base import Base, find_base, resolve
from harness.compat.carried import Carried, CarriedPatch, made_for, read_series
from harness.compat.judge import Judgement, check_rules, judge_release
from harness.compat.memory import Memory
from harness.compat.trees import Releases, Tree, version_of
from harness.errors import HarnessError, UsageError
from harness.models.compat import Cell, Compatibility, PatchInfo, Release

FETCHERS = 12
"""Releases read at the same time; the time goes into round trips, not bytes."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What to judge.

    Attributes:
        tags: Judge these; all known ones when empty.
        since: Leave out releases before this one (when no tags are named).
        base: The release the series is made for; None: as the series says, else found
            by fitting the series to each release.
    """

    series: Path
    tags: tuple[str, ...] = ()
    since: str | None = None
    base: str | None = None


@dataclass(frozen=True)
class Judged:
    """The result, and what it was computed from."""

    result: Compatibility
    patches: tuple[CarriedPatch, ...]
    trees: dict[str, Tree]
    base: Base
    base_prints: Mapping[str, str]

    def judge(self, tag: str) -> dict[str, Judgement]:
        """The verdicts at one release again, with the files they lead to."""
        return judge_release(self.patches, self.base, self.trees[tag], self.base_prints)


def judge_matrix(request: Request, releases: Releases, say: Say) -> Judged:
    """Judge a series at releases.

    A release that can't be read is reported with its failure, and the others are
    judged.

    Raises:
        UsageError: There is no series, no such tag, or a patch's rules contradict it.
        InfrastructureError: No release can be read, or the base can't.
    """
    tags = _selected(request, releases)
    base_tag = request.base or made_for(request.series)
    trees = {tag: releases.tree(tag) for tag in tags}
    base_tree = None
    if base_tag is not None:
        base_tree = trees.get(base_tag) or releases.tree(base_tag)
    # Strip levels need the names in a tree that the patches are about.
    carried = read_series(request.series, (base_tree or trees[tags[-1]]).fingerprints())
    everything = [*trees.values(), *([base_tree] if base_tree else [])]
    failures = _fetch(everything, _paths(carried))
    if base_tree is not None and base_tree.tag in failures:
        raise failures[base_tree.tag]
    readable = [tree for tag, tree in trees.items() if tag not in failures]
    base = (
        resolve(carried.patches, base_tree)
        if base_tree is not None
        else find_base(carried.patches, readable)
    )
    for name, why in base.misfits.items():
        say(f"{name}: {why}; judging it by its text alone")
    check_rules(carried.patches, base)
    prints = {} if base.tag is None else (base_tree or trees[base.tag]).fingerprints()
    memory = Memory(carried.patches, base.tag, prints)
    cells: dict[str, dict[str, Cell]] = {}
    for tree in readable:
        try:
            known = memory.recall(tree)
            if known is None:
                judged = judge_release(carried.patches, base, tree, prints)
                known = {name: found.cell for name, found in judged.items()}
                memory.keep(tree, known)
            cells[tree.tag] = known
        except HarnessError as error:
            failures[tree.tag] = error
    result = Compatibility(
        base=base.tag,
        patches={patch.name: _info(patch, base) for patch in carried.patches},
        releases=tuple(
            _release(tree, cells.get(tag), failures.get(tag))
            for tag, tree in trees.items()
        ),
    )
    return Judged(result, carried.patches, trees, base, prints)


def _selected(request: Request, releases: Releases) -> list[str]:
    if request.tags:
        return list(dict.fromkeys(request.tags))
    since = Version(request.since.removeprefix("v")) if request.since else None
    tags = [
        tag
        for tag in releases.tags()
        if since is None or (version_of(tag) or since) >= since
    ]
    if not tags:
        raise UsageError("no release is new enough", where=request.since or "releases")
    return tags


def _paths(carried: Carried) -> list[str]:
    targets = [target for patch in carried.patches for target in patch.targets]
    return sorted({path for t in targets for path in (t.path, t.new_path)})


def _fetch(trees: Sequence[Tree], paths: Collection[str]) -> dict[str, HarnessError]:
    """Read the targets of all releases at once; those that fail, by tag."""
    failures: dict[str, HarnessError] = {}

    def fetch(tree: Tree) -> None:
        try:
            tree.prepare(paths)
        except HarnessError as error:
            failures[tree.tag] = error

    pool = ThreadPoolExecutor(FETCHERS)
    try:
        list(pool.map(fetch, trees))
    finally:
        # Ctrl-C must not wait for what is still queued.
        pool.shutdown(wait=True, cancel_futures=True)
    return failures


def _info(patch: CarriedPatch, base: Base) -> PatchInfo:
    return PatchInfo(
        title=patch.title,
        targets=patch.paths,
        requires=patch.requires,
        pull_request=patch.pull_request,
        strip=patch.strip,
        rules=patch.rules is not None,
        failure=patch.failure or base.misfits.get(patch.name, ""),
    )


def _release(
    tree: Tree,
    cells: dict[str, Cell] | None,
    failure: HarnessError | None,
) -> Release:
    if cells is None:
        return Release(
            tag=tree.tag,
            commit=None,
            source=tree.source,
            verdicts={},
            failure=failure.line() if failure else "not read",
        )
    return Release(
        tag=tree.tag,
        commit=tree.commit(),
        source=tree.source,
        verdicts=cells,
    )
