# SPDX-License-Identifier: Apache-2.0
"""``harness verify``."""

from __future__ import annotations

import argparse

from harness.commands._common import (
    add_release,
    add_source,
    clocked,
    context,
    emit,
    say,
)
from harness.commands._measuring import (
    DEFAULT_PROFILE,
    add_force,
    add_pairs,
    add_profile,
    add_python,
    add_revision,
    load_profile,
)
from harness.errors import ExitCode
from harness.models.summary import Summary
from harness.report.markdown import who_spoke
from harness.workflows.verify.run import Options, verify

SUMMARY = "measure before and after each patch, and give a verdict on each"


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_release(parser)
    add_profile(parser)
    parser.add_argument(
        "--quick", action="store_true", help="one start per state, few questions"
    )
    add_force(parser)
    add_pairs(parser)
    add_python(parser)
    add_revision(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    progress = clocked(say)
    options = Options(
        profile=load_profile(here.project, arguments.profile),
        quick=arguments.quick,
        force=arguments.force,
        source=arguments.source,
        pairs=arguments.pairs,
        python=arguments.python,
        revision=arguments.model_revision,
        command=_command(arguments),
    )
    summary, code = verify(
        here.project, here.upstream, here.series, options, say=progress
    )
    emit(arguments, summary.model_dump(mode="json"), _lines(summary))
    return code


def _command(arguments: argparse.Namespace) -> str:
    words = ["make verify"]
    if arguments.tag:
        words.append(f"TAG={arguments.tag}")
    if arguments.profile != DEFAULT_PROFILE:
        words.append(f"PROFILE={arguments.profile}")
    if arguments.quick:
        words.append("QUICK=1")
    if arguments.model_revision:
        words.append(f"REVISION={arguments.model_revision}")
    if arguments.pairs:
        words.append(f'ARGS="--pairs {arguments.pairs}"')
    return " ".join(words)


def _lines(summary: Summary) -> list[str]:
    lines = []
    for patch in summary.patches.values():
        lines.append(f"{patch.number}  {patch.verdict.value:14}  {patch.title}")
        lines += [f"      {reason}" for reason in patch.judgement.reasons]
        lines += [f"      {line}" for line in who_spoke(patch.judgement)]
    where = f"results/{summary.tag}/{summary.profile}/report.md"
    lines.append(f"{summary.profile}: {summary.verdict.value}; see {where}")
    return lines
