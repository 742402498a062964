# SPDX-License-Identifier: Apache-2.0
"""``harness clean``."""

from __future__ import annotations

import argparse
import shutil

from harness.commands._common import context, emit
from harness.errors import ExitCode
from harness.series.checkout import read_state, refuse_local_work

SUMMARY = "remove build/; the user cache and results/ stay"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--discard",
        action="store_true",
        help="even when build/vllm holds edits or commits of yours",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    state = read_state(here.project)
    if state and not arguments.discard:
        refuse_local_work(here.project, state)
    shutil.rmtree(here.project.build, ignore_errors=True)
    emit(arguments, {"removed": "build"}, ["removed build/"])
    return ExitCode.PASS
