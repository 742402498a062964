# SPDX-License-Identifier: Apache-2.0
"""The committed results: readable by this program, and pages that show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.models.base import load
from harness.models.boots import BootFacts
from harness.models.summary import Summary
from harness.paths import Project, default_root
from harness.report.markdown import render

RESULTS = Project(default_root()).results
SUMMARIES = sorted(RESULTS.glob("*/*/summary.json"))


def test_there_are_results() -> None:
    assert {path.parent.name for path in SUMMARIES} >= {"cpu", "cpu-sp"}


@pytest.mark.parametrize("path", SUMMARIES, ids=lambda path: path.parent.name)
def test_a_summary_its_page_and_its_facts_agree(path: Path) -> None:
    summary = load(path, Summary)
    assert summary.profile == path.parent.name
    assert summary.tag == path.parent.parent.name
    assert (path.parent / "report.md").read_text() == render(summary)
    for boot in summary.boots:
        for raw in boot.raw:
            facts = load(path.parent / raw, BootFacts)
            assert facts.start_seconds == boot.start_seconds
