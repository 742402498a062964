# SPDX-License-Identifier: Apache-2.0
"""The table of profiles in README: generated, so that it lists what there is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.errors import UsageError
from harness.files import write_atomic
from harness.models.base import load
from harness.models.profile import Profile
from harness.paths import Project

BEGIN = "<!-- profiles:begin -->"
END = "<!-- profiles:end -->"
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
        report = results / tag / profile.name / "report.md"
        where = f"{results.name}/{tag}/{profile.name}/report.md"
        result = f"[report]({where})" if report.is_file() else NOT_RUN
        cells = (f"`{profile.name}`", profile.title, profile.runs_here, result)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def has_table(project: Project) -> bool:
    """Whether README has a place for the table."""
    readme = project.root / "README.md"
    return readme.is_file() and BEGIN in readme.read_text(encoding="utf-8")


def shown(readme: Path) -> str:
    """What README has between the markers.

    Raises:
        UsageError: A marker is missing.
    """
    return _parts(readme)[1]


def show_in_readme(project: Project, tag: str) -> int:
    """Write the table anew; how many profiles it holds."""
    readme = project.root / "README.md"
    profiles = load_profiles(project)
    head, old, tail = _parts(readme)
    new = table(profiles, project.results, tag)
    if new != old:
        write_atomic(readme, f"{head}{BEGIN}\n{new}{END}{tail}")
    return len(profiles)


def _parts(readme: Path) -> tuple[str, str, str]:
    content = readme.read_text(encoding="utf-8")
    head, begin, rest = content.partition(f"{BEGIN}\n")
    body, end, tail = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"needs {BEGIN} before {END}", where=str(readme))
    return head, body, tail
