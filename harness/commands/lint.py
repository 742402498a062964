# SPDX-License-Identifier: Apache-2.0
"""``harness lint``."""

from __future__ import annotations

import argparse

from harness.commands._common import add_source, context, emit, say
from harness.errors import ExitCode
from harness.git import Git
from harness.series.canonical import lint_exports
from harness.series.checkout import read_state
from harness.series.lint import lint_series
from harness.upstream.source import obtain
from harness.workflows.linting import lint_companions, lint_releases

SUMMARY = "check the series: listed, canonical, declared, clean by vLLM's own rules"


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    patches = here.project.patches
    found = lint_series(patches, here.upstream, here.series)
    found += lint_companions(patches, here.series) + lint_releases(patches)
    if not found:
        # Applying is worth trying only when the files are whole.
        state = read_state(here.project)
        wanted = arguments.source or (state.source if state else None)
        source = obtain(here.upstream, wanted, say=say)
        git = Git(source.path)
        found = lint_exports(
            here.project, here.upstream, here.series, git, source.commit
        )
    report = {"problems": [vars(problem) for problem in found]}
    lines = [f"patches/{problem}" for problem in found]
    emit(arguments, report, lines or [f"{len(here.series.patches)} patches, clean"])
    return ExitCode.REGRESSED if found else ExitCode.PASS
