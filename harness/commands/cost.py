# SPDX-License-Identifier: Apache-2.0
"""``harness cost``."""

from __future__ import annotations

import argparse

from harness.commands._common import add_source, clocked, context, emit, say
from harness.commands._measuring import add_profile, load_profile
from harness.errors import ExitCode, UsageError
from harness.report.cost import summary_line
from harness.workflows.cost import measure_cost, write_cost
from harness.workflows.verify.run import Options, prepared

SUMMARY = "time verify (first, unchanged, quick) against doing the same by hand"


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_profile(parser)
    parser.add_argument(
        "--patch",
        action="append",
        help="serve only this patch by hand, and count it for every patch; repeatable",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    progress = clocked(say)
    known = [entry.number for entry in here.series.patches]
    chosen = arguments.patch or known
    for number in chosen:
        if number not in known:
            raise UsageError("the series has no such patch", where=number)
    profile = load_profile(here.project, arguments.profile)
    options = Options(profile=profile, force=True, source=arguments.source)
    executor, states = prepared(
        here.project, here.upstream, here.series, options, say=progress
    )
    command = f"make cost PROFILE={profile.name}"
    if arguments.patch:
        words = " ".join(f"--patch {number}" for number in chosen)
        command += f' ARGS="{words}"'
    cost = measure_cost(executor, states, patches=chosen, command=command, say=progress)
    written = write_cost(here.project, cost)
    lines = [
        *(f"{run.name:10} {run.seconds:7.0f} s  {run.command}" for run in cost.runs),
        summary_line(cost),
        f"see {written.relative_to(here.project.root)}",
    ]
    emit(arguments, cost.model_dump(mode="json"), lines)
    return ExitCode.PASS
