# SPDX-License-Identifier: Apache-2.0
"""Results of independent jobs, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.version import Version

from harness.compat.trees import version_of
from harness.errors import UsageError
from harness.models.base import load
from harness.models.ci import CiRun, News
from harness.models.compat import Compatibility, Release, Verdict

RESULT = "compat.json"
RUN = "ci.json"
_TELLING = frozenset({Verdict.CONFLICT, Verdict.MERGED, Verdict.MERGED_MODIFIED})


def read_results(folders: Sequence[Path]) -> tuple[Compatibility, tuple[CiRun, ...]]:
    """Every result below ``folders``, merged.

    Raises:
        UsageError: There is none, or two jobs judged another series, or disagree.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UsageError("there is no such folder", where=str(folder))
    found = [path for folder in folders for path in sorted(folder.rglob(RESULT))]
    runs = [path for folder in folders for path in sorted(folder.rglob(RUN))]
    if not found:
        raise UsageError(f"no {RESULT} below {', '.join(map(str, folders))}")
    merged = merge([(path, load(path, Compatibility)) for path in found])
    return merged, tuple(load(path, CiRun) for path in runs)


def merge(results: Iterable[tuple[Path, Compatibility]]) -> Compatibility:
    """One result of several; a release judged twice must have equal verdicts.

    Raises:
        UsageError: Names the file that does not go with the others.
    """
    first: Compatibility | None = None
    releases: dict[str, Release] = {}
    for path, result in results:
        if first is None:
            first = result
        elif (result.base, result.patches) != (first.base, first.patches):
            raise UsageError("is of another series than the others", where=str(path))
        for release in result.releases:
            known = releases.get(release.tag)
            if known is None or known.failure:
                releases[release.tag] = release
            elif not release.failure and release.verdicts != known.verdicts:
                raise UsageError(
                    f"has other verdicts on {release.tag} than another result",
                    where=str(path),
                )
    assert first is not None
    ordered = sorted(releases.values(), key=lambda release: _order(release.tag))
    return first.model_copy(update={"releases": tuple(ordered)})


def news(result: Compatibility, known: Compatibility | None) -> list[News]:
    """CONFLICT, MERGED and MERGED-MODIFIED that are new at a release.

    New is what differs from the release before, among the releases of both results;
    of the releases that ``known`` has, nothing is new.
    """
    old = {release.tag for release in known.releases} if known else set()
    everything = {release.tag: release for release in known.releases} if known else {}
    everything |= {release.tag: release for release in result.releases}
    found: list[News] = []
    before: dict[str, Verdict] = {}
    for release in sorted(everything.values(), key=lambda r: _order(r.tag)):
        for number, cell in release.verdicts.items():
            changed = before.get(number) is not cell.verdict
            before[number] = cell.verdict
            if release.tag in old or not changed or cell.verdict not in _TELLING:
                continue
            title = f"compat: {number} is {cell.verdict} upstream"
            body = (
                f"`{release.tag}` (commit {release.commit or 'not stated'}): "
                f"{result.patches[number].title} is **{cell.verdict}**, decided by "
                f"{cell.signal}.\n\n{cell.detail}\n"
            )
            found.append(News(tag=release.tag, title=title, body=body))
    return found


def _order(tag: str) -> tuple[Version, str]:
    return version_of(tag) or Version("0"), tag
