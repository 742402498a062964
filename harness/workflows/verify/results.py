# SPDX-License-Identifier: Apache-2.0
"""``results/<tag>/<profile>/``: raw facts first, the verdict last."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.files import write_atomic
from harness.models.boots import BootFacts
from harness.models.summary import Summary
from harness.paths import Project
from harness.report.markdown import render
from harness.workflows.verify.claims import Probed, copy_facts

SUMMARY = "summary.json"
REPORT = "report.md"
RAW = "raw"


def write_results(
    project: Project, summary: Summary, raw: Mapping[str, BootFacts], probed: Probed
) -> Path:
    """Write everything of one run, and switch the whole folder in at the end.

    Args:
        raw: Facts of each server start, by the start's label.
        probed: What the probe suite left.
    """
    home = project.results / summary.tag / summary.profile
    home.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        fresh.chmod(0o755)
        for label, facts in raw.items():
            text = facts.model_dump_json(indent=1) + "\n"
            write_atomic(fresh / RAW / f"{label}.json", text)
        copy_facts(probed, fresh / RAW)
        write_atomic(fresh / REPORT, render(summary))
        write_atomic(fresh / SUMMARY, summary.model_dump_json(indent=2) + "\n")
        old = home.with_name(f".{home.name}-old")
        shutil.rmtree(old, ignore_errors=True)
        if home.exists():
            home.rename(old)
        fresh.rename(home)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return home
