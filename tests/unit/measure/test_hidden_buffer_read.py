# SPDX-License-Identifier: Apache-2.0
"""Facts of a served buffer: read whole, refused when they can't speak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfrastructureError
from harness.measure import hidden_buffer

SIZE = {"shape": [8, 16], "dtype": "bfloat16", "bytes": 256}


def write(folder: Path, pid: int = 1, **changes: Any) -> Path:
    data = {
        "pid": pid,
        "role": "VllmWorker",
        "model": "vllm.models.deepseek_v4.amd.model.DeepseekV4ForCausalLM",
        "classes": [{"name": "vllm.models.deepseek_v4.amd.model.DeepseekV4Model"}],
        "buffer": SIZE,
        "forwards": 3,
        "rows": 20,
        "rows_of_residual": 20,
        "stand_ins": [{"name": "a", "replaces": "b", "reason": "c"}],
        **changes,
    }
    (folder / f"buffer-{pid}.json").write_text(json.dumps(data))
    return folder


def test_facts_are_read(tmp_path: Path) -> None:
    found = hidden_buffer.collect(write(tmp_path))
    assert found.buffer is not None
    assert found.buffer.bytes == 256
    assert found.filled


def test_no_buffer_is_a_fact(tmp_path: Path) -> None:
    found = hidden_buffer.collect(write(tmp_path, buffer=None, rows_of_residual=0))
    assert found.buffer is None
    assert found.filled


def test_one_wrong_row_is_one_too_many(tmp_path: Path) -> None:
    assert not hidden_buffer.collect(write(tmp_path, rows_of_residual=19)).filled


def test_without_a_report_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="0 processes"):
        hidden_buffer.collect(tmp_path)


def test_two_targets_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with pytest.raises(InfrastructureError, match="2 processes"):
        hidden_buffer.collect(write(tmp_path, 2))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"forwards": 0, "rows": 0, "rows_of_residual": 0}, "ran no forward"),
        ({"rows": "many"}, "unreadable"),
        ({"rows_of_residual": 21}, "unreadable"),
        ({"buffer": None}, "unreadable"),
        ({"classes": []}, "unreadable"),
    ],
)
def test_nonsense_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InfrastructureError, match=said):
        hidden_buffer.collect(write(tmp_path, **changes))
