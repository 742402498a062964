# SPDX-License-Identifier: Apache-2.0
"""The plugin that lets sequence-parallel experts run on a CPU, held to references."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import processes
from harness.paths import Project
from tests.support.measured import run_script

SCRIPT = Path(__file__).with_name("measured") / "cpu_sp_ranks.py"
CASES = ("expert map", "all_gatherv", "reduce_scatterv", "layer", "counter")


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_equal_to_a_single_process(project: Project, tmp_path: Path) -> None:
    variables = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    log = run_script(project, SCRIPT, tmp_path, timeout=800, **variables).log
    said = [line for line in processes.tail(log, 200) if line.startswith(CASES)]
    assert said == [f"{case}: ok" for case in CASES], log.read_text()
