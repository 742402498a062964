# SPDX-License-Identifier: Apache-2.0
"""``harness rebase``."""

from __future__ import annotations

import argparse

from harness.commands._common import Context, context, emit, say
from harness.errors import ExitCode, UsageError
from harness.models.rebase import RebaseState
from harness.workflows.rebase.carry import Rebase, workspace_for
from harness.workflows.rebase.result import finish

SUMMARY = "carry the series to another release, into patches/<tag>/"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("release", metavar="TAG", help="the release, such as v0.25.1")
    parser.add_argument(
        "--source", help="git, sdist, or the path or URL of a clone; default: git, "
        "else sdist",
    )  # fmt: skip
    parser.add_argument(
        "--continue",
        dest="resume",
        action="store_true",
        help="take the conflict that you resolved, and go on",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    rebase = Rebase(
        here.project,
        here.upstream,
        here.series,
        workspace_for(here.project, arguments.release),
        say,
    )
    state = (
        rebase.resume()
        if arguments.resume
        else _start(rebase, arguments.release, arguments.source)
    )
    folder = finish(rebase, state)
    rebase.workspace.remove()
    place = folder.relative_to(here.project.root)
    report = {"folder": str(place), **state.model_dump(mode="json")}
    emit(arguments, report, [*_lines(state, here), f"report   {place}/rebase.md"])
    return ExitCode.PASS


def _start(rebase: Rebase, tag: str, source: str | None) -> RebaseState:
    state = rebase.workspace.state
    if state is not None and state.waiting is not None:
        raise UsageError(
            f"a rebase to {tag} waits at {state.waiting}",
            where=str(rebase.workspace.path),
            fix=f"`make rebase TAG={tag} CONTINUE=1`, or remove that folder",
        )
    return rebase.start(tag, source)


def _lines(state: RebaseState, here: Context) -> list[str]:
    lines = [f"{state.target.tag} {state.target.commit} from {here.upstream.tag}"]
    for step in state.steps:
        lines.append(f"{step.number}     {step.fate:10} {step.cell.verdict}")
        if step.cell.detail:
            lines.append(f"         {step.cell.detail}")
    return lines
