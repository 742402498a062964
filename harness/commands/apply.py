# SPDX-License-Identifier: Apache-2.0
"""``harness apply``."""

from __future__ import annotations

import argparse

from harness.commands._common import add_release, add_source, context, emit, say
from harness.errors import ExitCode
from harness.series.checkout import apply

SUMMARY = "put the series on the pinned vLLM checkout in build/vllm"


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_release(parser)
    parser.add_argument(
        "--discard",
        action="store_true",
        help="replace a checkout that holds edits or commits of yours",
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    done = apply(
        here.project,
        here.upstream,
        here.series,
        source=arguments.source,
        discard=arguments.discard,
        say=say,
    )
    what = "applied" if done.changed else "already applied"
    lines = [
        f"{what}: {here.upstream.tag} ({done.state.base[:12]}, "
        f"source {done.state.source}) + {len(done.state.commits)} patches"
    ]
    for entry in here.series.patches:
        lines.append(f"  {done.state.commits[entry.number][:12]}  {entry.file}")
    report = {"changed": done.changed, **done.state.model_dump(mode="json")}
    emit(arguments, report, lines)
    return ExitCode.PASS
