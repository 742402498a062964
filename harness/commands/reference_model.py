# SPDX-License-Identifier: Apache-2.0
"""``harness reference-model``."""

from __future__ import annotations

import argparse

from harness.commands._common import Context, context, emit, say
from harness.commands._measuring import add_python, cpu_environment, load_profile
from harness.errors import ExitCode
from harness.models.reference import read_checked
from harness.workflows import reference_results
from harness.workflows.reference_model import committed, train

SUMMARY = "train the reference model from nothing (about 20 minutes on one core)"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check",
        action="store_true",
        help="train nothing: compare the committed files with their hashes",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="train nothing: measure the committed model, write results/",
    )
    parser.add_argument(
        "--quick", action="store_true", help="with --measure: few questions, no results"
    )
    parser.add_argument(
        "--anew", action="store_true", help="forget an interrupted training"
    )
    add_python(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    folder = committed(here.project)
    if arguments.measure:
        return _measure(here, arguments)
    if arguments.check:
        manifest = read_checked(folder)
    else:
        environment = cpu_environment(here, arguments.python)
        manifest = train(here.project, environment, anew=arguments.anew, progress=say)
    emit(
        arguments,
        manifest.model_dump(mode="json"),
        [
            f"{folder.relative_to(here.project.root)}: {len(manifest.files)} files, as "
            f"listed; {manifest.steps} steps in {manifest.seconds:.0f} s"
        ],
    )
    return ExitCode.PASS


def _measure(here: Context, arguments: argparse.Namespace) -> ExitCode:
    read_checked(committed(here.project))
    subject = reference_results.Subject(
        project=here.project,
        upstream=here.upstream,
        series=here.series,
        profile=load_profile(here.project, reference_results.PROFILE),
        environment=cpu_environment(here, arguments.python),
        quick=arguments.quick,
        command='make reference-model ARGS="--measure"',
    )
    results = reference_results.measure(subject, say)
    if not arguments.quick:
        written = reference_results.write(here.project, results)
        say(f"written: {written.relative_to(here.project.root)}")
    emit(arguments, results.model_dump(mode="json"), [])
    return ExitCode.PASS
