# SPDX-License-Identifier: Apache-2.0
"""``harness noise``."""

from __future__ import annotations

import argparse

from harness.commands._common import add_source, clocked, context, emit, say
from harness.commands._measuring import (
    add_force,
    add_pairs,
    add_profile,
    add_python,
    add_revision,
    load_profile,
)
from harness.errors import ExitCode
from harness.models.signal import Verdict
from harness.workflows.verify.noise import measure_noise, noise_lines, write_noise
from harness.workflows.verify.run import Options, prepared

SUMMARY = "compare the base with itself: false alarms, noise floor, what can be found"
DEFAULT_PAIRS = 5


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_profile(parser)
    add_pairs(parser, default=DEFAULT_PAIRS)
    add_force(parser)
    add_python(parser)
    add_revision(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    progress = clocked(say)
    options = Options(
        profile=load_profile(here.project, arguments.profile),
        force=arguments.force,
        source=arguments.source,
        python=arguments.python,
        revision=arguments.model_revision,
    )
    executor, states = prepared(
        here.project, here.upstream, here.series, options, say=progress
    )
    command = f"make noise PROFILE={arguments.profile}"
    if arguments.model_revision:
        command += f" REVISION={arguments.model_revision}"
    if arguments.pairs != DEFAULT_PAIRS:
        command += f' ARGS="--pairs {arguments.pairs}"'
    noise = measure_noise(
        executor, states[0], pairs=arguments.pairs, command=command, say=progress
    )
    home = write_noise(here.project, noise)
    written = home.relative_to(here.project.root)
    lines = [*noise_lines(noise), f"{noise.verdict.value}; see {written}/report.md"]
    emit(arguments, noise.model_dump(mode="json"), lines)
    if noise.verdict is Verdict.INFRASTRUCTURE:
        return ExitCode.INFRASTRUCTURE
    # A false alarm: this machine can't carry a verdict as it is.
    alarm = noise.verdict is Verdict.REGRESSED
    return ExitCode.INCONCLUSIVE if alarm else ExitCode.PASS
