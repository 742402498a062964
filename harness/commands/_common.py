# SPDX-License-Identifier: Apache-2.0
"""What several commands share: the project's data files, and reporting."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.series import Series
from harness.paths import Project


@dataclass(frozen=True)
class Context:
    """The project a command works on."""

    project: Project
    upstream: Upstream
    series: Series


def context(arguments: argparse.Namespace) -> Context:
    """Read the pin and the series of the project at ``--root``.

    With ``--tag`` (see ``add_release``) these are the set for another release.

    Raises:
        UsageError: One of the files is missing or malformed.
    """
    release = getattr(arguments, "tag", None) or ""
    project = Project(arguments.root.resolve(), release)
    if release and not project.pin.exists():
        pinned = load(Project(project.root).pin, Upstream)
        if release != pinned.tag:
            raise UsageError(
                "no patches for this release",
                where=release,
                fix=f"make rebase TAG={release}",
            )
        project = Project(project.root)
    return Context(
        project,
        load(project.pin, Upstream),
        load(project.patches / "series.yaml", Series),
    )


def say(line: str) -> None:
    """One line of progress; standard output is kept for the report."""
    # In one write: what is measured side by side reports at the same time.
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def clocked(say: Callable[[str], None]) -> Callable[[str], None]:
    """``say`` with the seconds since now before each line, for what takes long."""
    began = time.monotonic()
    return lambda line: say(f"{time.monotonic() - began:5.0f} s  {line}")


def emit(
    arguments: argparse.Namespace, report: dict[str, Any], lines: Iterable[str]
) -> None:
    """The report: as JSON with ``--json``, else as lines."""
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        for line in lines:
            print(line)


def add_release(parser: argparse.ArgumentParser) -> None:
    """The ``--tag`` option."""
    parser.add_argument(
        "--tag", help="work on the patches that `make rebase` wrote for this release"
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    """The ``--source`` option."""
    parser.add_argument(
        "--source",
        help="git, sdist, or the path or URL of a clone; default: the one in use, "
        "else git, else sdist",
    )
