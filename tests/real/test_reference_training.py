# SPDX-License-Identifier: Apache-2.0
"""How the reference model is trained and scored, where torch is."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import processes
from harness.paths import Project
from tests.support.measured import run_script

SCRIPT = Path(__file__).with_name("measured") / "reference_training.py"


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_training_resumes_disturbs_and_scores(project: Project, tmp_path: Path) -> None:
    done = run_script(project, SCRIPT, tmp_path, timeout=600, OMP_NUM_THREADS="1")
    log = done.check("training").log
    said = [line for line in processes.tail(log, 50) if line.endswith(": ok")]
    assert len(said) == 5, log.read_text()
