# SPDX-License-Identifier: Apache-2.0
"""What goes with patches: their rules, their claims, the sets for other releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from harness.compat.rules import load_rules
from harness.errors import UsageError
from harness.models.base import load
from harness.models.series import PatchEntry, Series
from harness.probes.suite import read_claims
from harness.series.lint import Problem
from harness.series.refresh import SERIES_FILE

RULES, CLAIMS = "rules", "claims"


def lint_companions(folder: Path, series: Series) -> list[Problem]:
    """Problems of ``rules/`` and ``claims/`` in ``folder``.

    A series that has such a folder has one valid file in it for each of its patches,
    and no other.
    """
    return [
        *_one_for_each(folder, RULES, series, _check_rules),
        *_one_for_each(folder, CLAIMS, series, _check_claims),
    ]


def lint_releases(patches: Path) -> list[Problem]:
    """Problems of the sets in ``patches/v*/``, which ``make rebase`` writes."""
    found: list[Problem] = []
    for folder in sorted(path for path in patches.glob("v*") if path.is_dir()):
        name = f"{folder.name}/{SERIES_FILE}"
        try:
            series = load(folder / SERIES_FILE, Series)
        except UsageError as error:
            found.append(Problem(name, 1, error.what))
            continue
        found += [
            Problem(f"{folder.name}/{problem.file}", problem.line, problem.text)
            for problem in (*_listed(folder, series), *lint_companions(folder, series))
        ]
    return found


def _listed(folder: Path, series: Series) -> Iterator[Problem]:
    if series.base != folder.name:
        yield Problem(SERIES_FILE, 1, f"base is {series.base}, not {folder.name}")
    listed = {entry.file for entry in series.patches}
    there = {path.name for path in folder.glob("*.patch")}
    for name in sorted(there - listed):
        yield Problem(name, 1, f"is not listed in {SERIES_FILE}")
    for name in sorted(listed - there):
        yield Problem(SERIES_FILE, 1, f"{name} does not exist")


def _one_for_each(
    folder: Path,
    kind: str,
    series: Series,
    check: Callable[[Path, Series, PatchEntry], None],
) -> Iterator[Problem]:
    home = folder / kind
    if not home.is_dir():
        return
    wanted = {f"{entry.number}.yaml": entry for entry in series.patches}
    there = {path.name for path in home.glob("*.yaml")}
    for name in sorted(there - wanted.keys()):
        yield Problem(f"{kind}/{name}", 1, f"belongs to no patch of {SERIES_FILE}")
    for name, entry in wanted.items():
        if name not in there:
            yield Problem(f"{kind}/{name}", 1, f"does not exist: {entry.file} needs it")
            continue
        try:
            check(home, series, entry)
        except UsageError as error:
            yield Problem(f"{kind}/{name}", 1, error.what)


def _check_rules(home: Path, series: Series, entry: PatchEntry) -> None:
    rules = load_rules(home, entry.number)
    ruled = {target.path for target in rules.targets} if rules else set()
    declared = {target.path for target in entry.targets}
    if ruled != declared:
        raise UsageError(
            f"has rules for {', '.join(sorted(ruled))}; the patch changes "
            f"{', '.join(sorted(declared))}"
        )


def _check_claims(home: Path, series: Series, entry: PatchEntry) -> None:
    read_claims(series.model_copy(update={"patches": (entry,)}), home)
