# SPDX-License-Identifier: Apache-2.0
"""``harness ci-tag``."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.commands._common import context, emit, say
from harness.commands._measuring import add_profile
from harness.errors import ExitCode, UsageError
from harness.models.ci import CiRun
from harness.models.pin import Tag
from harness.workflows.ci_tag import Job

SUMMARY = "what CI does for one release: compat, and verify where anything applies"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("release", metavar="TAG", help="the release, such as v0.27.0")
    add_profile(parser)
    parser.add_argument(
        "--output", type=Path, help="folder for the results (default build/ci/TAG)"
    )
    parser.add_argument("--source", help="see `harness compat` and `harness apply`")
    parser.add_argument(
        "--verify-arguments",
        default="--quick",
        metavar="WORDS",
        help="more options for verify (default --quick)",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    tag = checked_tag(arguments.release)
    here = context(arguments)
    job = Job(
        project=here.project,
        upstream=here.upstream,
        tag=tag,
        output=(arguments.output or here.project.build / "ci" / tag).resolve(),
        source=arguments.source,
        profile=arguments.profile,
        arguments=shlex.split(arguments.verify_arguments),
        say=say,
    )
    done = job.run()
    emit(arguments, done.model_dump(mode="json"), _lines(done))
    return ExitCode(done.exit_code)


def checked_tag(text: str) -> str:
    """``text``, if it is a release tag.

    Raises:
        UsageError: It is not; it comes from outside and goes into commands.
    """
    try:
        return TypeAdapter(Tag).validate_python(text)
    except ValidationError as error:
        raise UsageError(
            "is no release tag", where=repr(text), fix="such as v0.27.0"
        ) from error


def _lines(done: CiRun) -> list[str]:
    lines = [f"{done.tag}: exit code {done.exit_code}"]
    lines += [f"  {number} {verdict}" for number, verdict in done.verdicts.items()]
    lines += [
        f"  {step.name}: exit {step.exit_code} after {step.seconds:.0f} s"
        for step in done.steps
    ]
    return [*lines, f"  {done.note}"] if done.note else lines
