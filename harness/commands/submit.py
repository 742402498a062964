# SPDX-License-Identifier: Apache-2.0
"""``harness submit``."""

from __future__ import annotations

import argparse
import os

from harness.commands._common import context, emit
from harness.errors import ExitCode
from harness.git import Git
from harness.series.checkout import require_state
from harness.series.submission import parse_signoff, write_submissions

SUMMARY = "write submission copies with a person's sign-off, and the pull request texts"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signoff",
        default=os.environ.get("SIGNOFF", ""),
        help='the person who owns the change: "Name <mail>"',
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    signoff = parse_signoff(arguments.signoff)
    state = require_state(here.project)
    into = here.project.build / "submission"
    written = write_submissions(
        Git(here.project.checkout.resolve()),
        state.base,
        here.series.patches,
        here.upstream,
        here.project.patches,
        signoff,
        into,
    )
    report = {
        item.number: {"patch": str(item.patch), "text": str(item.text)}
        for item in written
    }
    root = here.project.root
    lines = [
        f"{item.number}  {item.patch.relative_to(root)} and .md" for item in written
    ]
    emit(arguments, report, lines)
    return ExitCode.PASS
