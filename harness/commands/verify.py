# SPDX-License-Identifier: Apache-2.0
"""``harness verify``."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commands._common import (
    add_release,
    add_source,
    clocked,
    context,
    emit,
    say,
)
from harness.errors import ExitCode, UsageError
from harness.models.base import load
from harness.models.profile import Profile
from harness.models.summary import Summary
from harness.paths import Project
from harness.report.markdown import who_spoke
from harness.workflows.verify.run import Options, verify

SUMMARY = "measure before and after each patch, and give a verdict on each"
DEFAULT_PROFILE = "cpu"


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_release(parser)
    parser.add_argument(
        "--profile", default=DEFAULT_PROFILE, help="a file in configs/profiles"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one start per state, few questions"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure anew what an earlier run has"
    )
    parser.add_argument(
        "--pairs", type=positive, help="pairs of server starts for timing"
    )
    parser.add_argument(
        "--python", type=Path, help="a Python with vLLM of the pinned release in it"
    )
    parser.add_argument(
        "--model-revision",
        metavar="COMMIT",
        help="the commit of the profile's model on the hub, if the profile has none",
    )


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


def load_profile(project: Project, name: str) -> Profile:
    """A profile by its name.

    Raises:
        UsageError: There is none, with the names that there are.
    """
    folder = project.configs / "profiles"
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise UsageError(f"no profile {name!r}", where="PROFILE", fix=f"one of {known}")
    return load(path, Profile)


def _command(arguments: argparse.Namespace) -> str:
    words = ["make verify"]
    if arguments.profile != DEFAULT_PROFILE:
        words.append(f"PROFILE={arguments.profile}")
    if arguments.quick:
        words.append("QUICK=1")
    if arguments.model_revision:
        words.append(f"REVISION={arguments.model_revision}")
    if arguments.pairs:
        words.append(f'ARGS="--pairs {arguments.pairs}"')
    return " ".join(words)


def positive(text: str) -> int:
    """An argument that counts something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("one pair at least")
    return number


def _lines(summary: Summary) -> list[str]:
    lines = []
    for patch in summary.patches.values():
        lines.append(f"{patch.number}  {patch.verdict.value:14}  {patch.title}")
        lines += [f"      {reason}" for reason in patch.judgement.reasons]
        lines += [f"      {line}" for line in who_spoke(patch.judgement)]
    where = f"results/{summary.tag}/{summary.profile}/report.md"
    lines.append(f"{summary.profile}: {summary.verdict.value}; see {where}")
    return lines
