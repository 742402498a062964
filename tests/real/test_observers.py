# SPDX-License-Identifier: Apache-2.0
"""What the probes see, held to operators whose counts are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import processes
from harness.paths import Project
from tests.support.measured import run_script

SCRIPT = Path(__file__).with_name("measured") / "observers.py"


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_observers_count_what_happens(project: Project, tmp_path: Path) -> None:
    log = run_script(project, SCRIPT, tmp_path, timeout=600).check("observers").log
    said = [line for line in processes.tail(log, 50) if line.endswith(": ok")]
    assert len(said) == 8, log.read_text()
