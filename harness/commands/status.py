# SPDX-License-Identifier: Apache-2.0
"""``harness status``."""

from __future__ import annotations

import argparse
from typing import Any

from harness.commands._common import Context, context, emit
from harness.errors import ExitCode
from harness.git import Git
from harness.models.state import CheckoutState
from harness.series.checkout import local_edits, read_state
from harness.upstream.source import blob_at

SUMMARY = "pin, source, applied or not, and per patch: commit, blob ids, drift"


def configure(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    state = read_state(here.project)
    report: dict[str, Any] = {
        "tag": here.upstream.tag,
        "commit": here.upstream.commit,
        "applied": state is not None,
        "state": state.model_dump(mode="json") if state else None,
        "local_edits": local_edits(here.project) if state else [],
        "patches": _patches(here, state),
    }
    emit(arguments, report, _lines(report, state))
    return ExitCode.PASS


def _patches(here: Context, state: CheckoutState | None) -> list[dict[str, Any]]:
    rows = []
    steps = here.series.steps()
    git = Git(here.project.checkout.resolve()) if state else None
    for entry in here.series.patches:
        commit = state.commits.get(entry.number) if state else None
        drift = []
        for target in entry.targets if git else ():
            found = blob_at(git, "HEAD", target.path) if git else None
            final = steps[target.path][-1]
            if found != final:
                drift.append(f"{target.path} is {found}, the series ends at {final}")
        targets = [target.model_dump() for target in entry.targets]
        row = {"number": entry.number, "file": entry.file, "commit": commit}
        rows.append({**row, "targets": targets, "drift": drift})
    return rows


def _lines(report: dict[str, Any], state: CheckoutState | None) -> list[str]:
    lines = [f"pin      {report['tag']} {report['commit']}"]
    if state:
        lines.append(f"applied  yes, source {state.source}, base {state.base}")
    else:
        lines.append("applied  no (make apply)")
    for edit in report["local_edits"]:
        lines.append(f"edited   {edit[3:]}")
    for patch in report["patches"]:
        commit = (patch["commit"] or "-")[:12]
        lines.append(f"{patch['number']}     {commit:12}  {patch['file']}")
        for target in patch["targets"]:
            blobs = f"{target['before'][:12]} -> {target['after'][:12]}"
            lines.append(f"         {blobs}  {target['path']}")
        lines += [f"  drift  {line}" for line in patch["drift"]]
    return lines
