# SPDX-License-Identifier: Apache-2.0
"""The plugin that serves DeepSeek V4 on a CPU, held to references."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.paths import Project
from tests.support.measured import run_script

SCRIPT = Path(__file__).with_name("measured") / "cpu_v4_standins.py"
NARROW = {"bfloat16 arithmetic", "dot", "conversions"}
"""What Triton's interpreter gets wrong unless it is corrected."""


def cases() -> list[str]:
    """The names of the script's cases, without running it."""
    for node in ast.parse(SCRIPT.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CASES":
            assert isinstance(node.value, ast.Dict)
            return [ast.literal_eval(key) for key in node.value.keys if key]
    raise AssertionError("no CASES")


def said(project: Project, folder: Path, *words: str) -> dict[str, bool]:
    """Whether each case went well."""
    done = run_script(project, SCRIPT, folder, *words, timeout=800, OMP_NUM_THREADS="1")
    lines = done.log.read_text().splitlines()
    return {case: f"{case}: ok" in lines for case in cases()}


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_equal_to_plain_references(project: Project, tmp_path: Path) -> None:
    found = said(project, tmp_path)
    assert all(found.values()), (tmp_path / "log.txt").read_text()


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_the_interpreter_needs_the_correction(project: Project, tmp_path: Path) -> None:
    found = said(project, tmp_path, "--plain-interpreter")
    assert {case for case in NARROW if found[case]} == set()
