# SPDX-License-Identifier: Apache-2.0
"""Lint that needs the pinned tree: re-export equals file, and vLLM's own style."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from harness.errors import HarnessError, InfrastructureError
from harness.git import Git
from harness.models.pin import Upstream
from harness.models.series import Series
from harness.paths import Project
from harness.series.export import export
from harness.series.lint import Problem
from harness.series.readme import README, render
from harness.series.stack import Applied, stack

_STYLE_FILES = ("pyproject.toml", ".pre-commit-config.yaml", "vllm")
"""Configuration, and the package: ruff sorts imports by which modules exist."""

_TOOLS = {
    "ruff": "https://github.com/astral-sh/ruff-pre-commit",
    "typos": "https://github.com/crate-ci/typos",
}
"""Tools whose revision vLLM's pre-commit configuration names, by repository."""


def lint_exports(
    project: Project,
    upstream: Upstream,
    series: Series,
    git: Git,
    base: str,
    *,
    style: bool = True,
) -> list[Problem]:
    """Problems that show when the series is applied to the pinned tree.

    Args:
        git: A repository that holds ``base``.
        base: The pinned commit.
        style: Run vLLM's own linters on the files as patched, too.
    """
    try:
        applied = stack(git, base, series.patches, project.patches)
    except HarnessError as error:
        return [Problem(error.where or "series.yaml", 1, error.what)]
    found = []
    for item in applied:
        canonical = export(git, item.commit, item.entry, upstream)
        written = (project.patches / item.entry.file).read_bytes()
        if canonical != written:
            line = _first_difference(canonical, written)
            text = "is not in canonical form (make refresh)"
            found.append(Problem(item.entry.file, line, text))
    readme = project.patches / README
    text = render(project, upstream, series)
    if not readme.exists() or readme.read_text(encoding="utf-8") != text:
        found.append(Problem(README, 1, "is not the generated text (make refresh)"))
    return found + (_style(git, applied, series.paths()) if style else [])


def _first_difference(left: bytes, right: bytes) -> int:
    pairs = zip(left.split(b"\n"), right.split(b"\n"), strict=False)
    for number, (one, other) in enumerate(pairs, start=1):
        if one != other:
            return number
    return min(left.count(b"\n"), right.count(b"\n")) + 1


def _style(git: Git, applied: Sequence[Applied], paths: Sequence[str]) -> list[Problem]:
    """vLLM's ruff and typos on the files as patched, with vLLM's configuration."""
    if not applied:
        return []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        archive = git.run("archive", "--format=tar", applied[-1].commit, *_STYLE_FILES)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(root, filter="data")
        _require_versions((root / ".pre-commit-config.yaml").read_text("utf-8"))
        found = []
        for tool, arguments in (
            ("ruff", ("check", "--no-cache", "--output-format=concise", "--no-fix")),
            ("ruff", ("format", "--no-cache", "--check")),
            ("typos", ("--force-exclude", "--format=brief")),
        ):
            found += _run_tool(root, tool, arguments, paths)
        return found


def _require_versions(pre_commit: str) -> None:
    for tool, repository in _TOOLS.items():
        revision = re.search(
            rf"repo: {re.escape(repository)}\s+rev: v?(\S+)", pre_commit
        )
        if revision is None or revision[1] != version(tool):
            wanted = revision[1] if revision else "none"
            raise InfrastructureError(
                f"the tree asks for {tool} {wanted}, installed is {version(tool)}",
                where=".pre-commit-config.yaml",
                fix=f"pin {tool}=={wanted} in pyproject.toml and run `make lock`",
            )


def _run_tool(
    root: Path, tool: str, arguments: Sequence[str], paths: Sequence[str]
) -> list[Problem]:
    program = Path(sys.executable).with_name(tool)
    done = subprocess.run(
        [program, *arguments, *paths],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return []
    found = []
    for line in (done.stdout + done.stderr).splitlines():
        place = re.match(
            r"(?:Would reformat: )?(vllm/[^:]+)(?::(\d+))?(?::\d+)?:?", line
        )
        if place:
            text = line[place.end() :].strip() or "would be reformatted"
            found.append(Problem(place[1], int(place[2] or 1), f"{tool}: {text}"))
    if not found:
        first = (done.stderr or done.stdout).strip().splitlines()[:1]
        raise InfrastructureError(f"{tool} failed: {' '.join(first)}")
    return found
