# SPDX-License-Identifier: Apache-2.0
"""``results/<tag>/<profile>/``: raw facts first, the verdict last."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.evidence.pairing import Pair
from harness.files import write_atomic
from harness.models.boots import BootFacts
from harness.models.summary import Summary
from harness.paths import Project, cache_dir
from harness.report.markdown import render
from harness.workflows.verify.claims import Probed, probe_files
from harness.workflows.verify.flips import as_json

SUMMARY = "summary.json"
REPORT = "report.md"
RAW = "raw"


def write_results(
    project: Project,
    summary: Summary,
    raw: Mapping[str, BootFacts],
    probed: Probed,
    flips: Mapping[str, tuple[Pair, ...]],
) -> Path:
    """Write everything of one run, and switch the whole folder in at the end.

    Args:
        raw: Facts of each server start, by the start's label.
        probed: What the probe suite left.
        flips: Questions right on one side only, by the name of their file.
    """
    home = project.results / summary.tag / summary.profile
    home.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        fresh.chmod(0o755)
        for label, facts in raw.items():
            text = facts.model_dump_json(indent=1) + "\n"
            write_atomic(fresh / RAW / f"{label}.json", portable(text, project))
        kept = {name: as_json(pairs) for name, pairs in flips.items()}
        for name, text in (probe_files(probed) | kept).items():
            write_atomic(fresh / RAW / name, portable(text, project))
        summarized = portable(summary.model_dump_json(indent=2) + "\n", project)
        write_atomic(fresh / REPORT, portable(render(summary), project))
        write_atomic(fresh / SUMMARY, summarized)
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


def portable(text: str, project: Project) -> str:
    """``text`` without this machine's folders: results are read elsewhere.

    The project, the cache, large data and the user's home get names in their place.
    """
    names = {
        str(project.root.resolve()): "<project>",
        str(cache_dir().resolve()): "<cache>",
        str(project.data.resolve()): "<data>",
        str(Path(sys.prefix).resolve()): "<python>",
        str(Path(sys.base_prefix).resolve()): "<python>",
        str(Path.home()): "<home>",
        tempfile.gettempdir(): "<temporary>",
    }
    for folder in sorted(names, key=len, reverse=True):
        if folder != "/":
            text = text.replace(folder, names[folder])
    return text
