# SPDX-License-Identifier: Apache-2.0
"""``harness landed``."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from harness.commands._common import add_release, context, emit
from harness.errors import ExitCode
from harness.series.landed import Landed, Landing, landed

SUMMARY = "whether the series is in an installed vLLM or another checkout, by blob ids"


def configure(parser: argparse.ArgumentParser) -> None:
    add_release(parser)
    parser.add_argument(
        "folder",
        type=Path,
        help="holds vllm/: an environment's site-packages, or a checkout",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    found = landed(here.series, arguments.folder)
    report = {"tag": here.upstream.tag, "targets": [asdict(one) for one in found]}
    emit(arguments, report, [_line(one) for one in found])
    whole = all(one.landing is Landing.LANDED for one in found)
    return ExitCode.PASS if whole else ExitCode.REGRESSED


def _line(one: Landed) -> str:
    line = f"{one.number}  {one.landing.value:11}  {one.path}"
    if one.landing is Landing.UNKNOWN and one.found:
        line += f" is {one.found[:12]}, the patch leaves {one.wanted[:12]}"
    return line
