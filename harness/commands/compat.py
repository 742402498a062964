# SPDX-License-Identifier: Apache-2.0
"""``harness compat``."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from rich.console import Console

from harness.commands._common import say
from harness.compat.gittrees import GitReleases
from harness.compat.matrix import Request, judge_matrix
from harness.compat.render import details, markdown, readme_part, terminal_table
from harness.compat.trees import Releases
from harness.compat.wheels import IndexReleases
from harness.errors import ExitCode, UsageError
from harness.files import write_atomic
from harness.models.base import load
from harness.models.compat import Compatibility
from harness.models.pin import Upstream
from harness.paths import Project
from harness.readme import show

SUMMARY = "a verdict per patch for every upstream release"
PART = "compat"
"""Name of the table's place in README."""
SINCE = "v0.20.2"
"""Older releases have no DeepSeek V4 at all."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tag", action="append", default=[], help="judge this release; repeatable"
    )
    parser.add_argument(
        "--since", default=SINCE, help=f"oldest release to judge (default {SINCE})"
    )
    parser.add_argument(
        "--series", type=Path, help="a folder with series.yaml, a quilt series or diffs"
    )
    parser.add_argument("--base", help="the release that the series is made for")
    parser.add_argument(
        "--source",
        help="index (default), git (the upstream repository), or a clone's path or URL",
    )
    parser.add_argument(
        "--prereleases", action="store_true", help="also release candidates"
    )
    parser.add_argument(
        "--details", action="store_true", help="say what decided each verdict"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="folder for compat.json and compat.md (default results/, and README, for "
        "a whole run of our own series; else nothing is written)",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    started = time.monotonic()
    project = Project(arguments.root.resolve())
    upstream = load(project.configs / "upstream.yaml", Upstream)
    releases = open_releases(arguments.source, upstream, arguments.prereleases)
    request = Request(
        series=arguments.series or project.patches,
        tags=tuple(arguments.tag),
        since=arguments.since,
        base=arguments.base,
    )
    try:
        result = judge_matrix(request, releases, say).result
        downloaded = releases.downloaded
    finally:
        releases.close()
    _store(result, arguments, project)
    if arguments.json:
        print(json.dumps(result.model_dump(mode="json"), indent=2))
    else:
        _print(result, arguments.details or bool(arguments.tag))
    seconds = time.monotonic() - started
    say(f"{seconds:.1f} s, {downloaded / 1e6:.1f} MB downloaded")
    return _exit_code(result)


def open_releases(
    source: str | None, upstream: Upstream, prereleases: bool
) -> Releases:
    """Where releases come from, as ``--source`` says."""
    if source in (None, "", "index", "sdist"):
        return IndexReleases(upstream.project, prereleases=prereleases, say=say)
    where = upstream.repository if source == "git" else source
    return GitReleases(where, prereleases=prereleases)


def _store(
    result: Compatibility, arguments: argparse.Namespace, project: Project
) -> None:
    folder = arguments.output
    whole = not arguments.series and not arguments.tag and arguments.since == SINCE
    if folder is None and whole:
        folder = project.results
    if folder is None:
        return
    write_atomic(
        folder / "compat.json", json.dumps(result.model_dump(mode="json"), indent=1)
    )
    write_atomic(folder / "compat.md", markdown(result))
    if folder == project.results:
        show(project.root / "README.md", PART, readme_part(result))


def _print(result: Compatibility, with_details: bool) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(terminal_table(result))
    for number, patch in result.patches.items():
        if patch.strip != 1:
            console.print(f"{number}: paths read with -p{patch.strip}", markup=False)
        if patch.failure:
            console.print(f"{number}: {patch.failure}", markup=False)
    if with_details:
        for line in details(result):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def _exit_code(result: Compatibility) -> ExitCode:
    failed = [release for release in result.releases if release.failure]
    for release in failed:
        say(f"not read: {release.failure}")
    if result.pinned_failures():
        names = ", ".join(result.pinned_failures())
        say(f"no longer EXACT at {result.base}: {names}")
        return ExitCode.REGRESSED
    if failed:
        return ExitCode.INFRASTRUCTURE
    broken = [patch for patch in result.patches.values() if patch.failure]
    if broken and not any(r.verdicts for r in result.releases):
        raise UsageError("no patch could be read")
    return ExitCode.USAGE if broken else ExitCode.PASS
