# SPDX-License-Identifier: Apache-2.0
"""The table of profiles in README: generated, so that it lists what there is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.errors import UsageError
from harness.models.base import load
from harness.models.profile import Profile
from harness.paths import Project
from harness.readme import show

PART = "profiles"
"""Name of the table's place in README."""
NOT_RUN = "not run"


def load_profiles(project: Project) -> tuple[Profile, ...]:
    """All profiles, those for a CPU first, else by name.

    Raises:
        UsageError: A file is malformed, or not named as its profile.
    """
    found = []
    for path in sorted((project.configs / "profiles").glob("*.yaml")):
        profile = load(path, Profile)
        if profile.name != path.stem:
            raise UsageError(
                f"holds the profile {profile.name}",
                where=str(path),
                fix="name the file as the profile",
            )
        found.append(profile)
    return tuple(sorted(found, key=lambda p: (p.machines is not None, p.name)))


def table(profiles: Iterable[Profile], results: Path, tag: str) -> str:
    """Markdown: what each profile is, what it needs, and its result if there is one.

    Args:
        results: The folder of results.
        tag: The release they are of.
    """
    lines = [
        "| profile | what it serves | needs | result |",
        "| --- | --- | --- | --- |",
    ]
    for profile in profiles:
        where = profile.page or f"{results.name}/{tag}/{profile.name}/report.md"
        there = (results.parent / where).is_file()
        result = f"[report]({where})" if there else NOT_RUN
        cells = (f"`{profile.name}`", profile.title, profile.runs_here, result)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def show_in_readme(project: Project, tag: str) -> bool:
    """Write the table anew; whether README has a place for it.

    Raises:
        UsageError: A marker stands alone, or a profile is malformed.
    """
    text = table(load_profiles(project), project.results, tag)
    return show(project.root / "README.md", PART, text)
