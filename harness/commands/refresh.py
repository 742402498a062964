# SPDX-License-Identifier: Apache-2.0
"""``harness refresh``."""

from __future__ import annotations

import argparse
import dataclasses

from harness.commands._common import context, emit, say
from harness.errors import ExitCode
from harness.series.checkout import apply, require_state
from harness.series.readme import write_readme
from harness.series.refresh import refresh

SUMMARY = "write patches/ anew from the commits in build/vllm"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--drop",
        action="store_true",
        help="take patches whose commit is gone out of the series",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    state = require_state(here.project)
    done = refresh(here.project, here.upstream, here.series, state, drop=arguments.drop)
    here = context(arguments)
    write_readme(here.project, here.upstream, here.series)
    # The commits are in patches/ now: bring the checkout to their canonical form.
    apply(
        here.project, here.upstream, here.series,
        source=state.source, discard=True, say=say,
    )  # fmt: skip
    lines = [f"written: {name}" for name in done.written]
    lines += [f"unchanged: {name}" for name in done.unchanged]
    lines += [f"new, describe it in series.yaml: {name}" for name in done.added]
    lines += [f"dropped: {name}" for name in done.dropped]
    emit(arguments, dataclasses.asdict(done), lines)
    return ExitCode.PASS
