# SPDX-License-Identifier: Apache-2.0
"""``harness report``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from harness.commands._common import emit
from harness.compat.merging import RESULT, read_results
from harness.compat.render import markdown
from harness.errors import ExitCode
from harness.files import write_atomic
from harness.models.ci import CiRun
from harness.models.compat import Compatibility

SUMMARY = "merge the results of independent jobs into one"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--merge",
        nargs="+",
        type=Path,
        required=True,
        metavar="DIR",
        help="folders with the jobs' results, searched to any depth",
    )
    parser.add_argument(
        "--output", type=Path, help="folder for compat.json, compat.md and summary.md"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    result, runs = read_results(arguments.merge)
    summary = summary_page(result, runs)
    if arguments.output:
        plain = json.dumps(result.model_dump(mode="json"), indent=1)
        write_atomic(arguments.output / RESULT, plain)
        write_atomic(arguments.output / "compat.md", markdown(result))
        write_atomic(arguments.output / "summary.md", summary)
    report = {
        "compat": result.model_dump(mode="json"),
        "runs": [run.model_dump(mode="json") for run in runs],
    }
    emit(arguments, report, summary.splitlines())
    return _worst(runs)


def summary_page(result: Compatibility, runs: Sequence[CiRun]) -> str:
    """The run's page: the jobs, then the table."""
    lines = ["# Releases judged", ""]
    if runs:
        lines += ["| release | exit code | steps | note |", "| --- | --- | --- | --- |"]
    for run in sorted(runs, key=lambda run: run.tag):
        steps = ", ".join(
            f"{step.name} {step.exit_code} ({step.seconds:.0f} s)" for step in run.steps
        )
        lines.append(f"| {run.tag} | {run.exit_code} | {steps} | {run.note} |")
    return "\n".join([*lines, "", markdown(result)])


def _worst(runs: Sequence[CiRun]) -> ExitCode:
    """A regression outweighs what could not be measured, and that what was unclear."""
    codes = {run.exit_code for run in runs}
    for code in (
        ExitCode.REGRESSED,
        ExitCode.USAGE,
        ExitCode.INFRASTRUCTURE,
        ExitCode.INCONCLUSIVE,
    ):
        if code in codes:
            return code
    return ExitCode.PASS
