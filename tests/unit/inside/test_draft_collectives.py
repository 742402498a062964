# SPDX-License-Identifier: Apache-2.0
"""The ledger of a draft model's forwards, as the file that a worker writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.inside import cpu_sp
from harness.inside.collectives import Ledger
from harness.models.base import load
from harness.models.collectives import ProcessCollectives

ABOUT = {
    "pid": 1,
    "role": "VllmWorker-0",
    "draft": "Draft",
    "tensor_rank": 0,
    "data_rank": 1,
    "eager": True,
}


def call(rows: int, sizes: list[int] | None = None) -> dict[str, Any]:
    return {
        "op": "all_gatherv",
        "group": "ep",
        "shape": [[rows, 4]],
        "dtype": ["float32"],
        "bytes": 16 * rows,
        "arguments": [0],
        "sizes": sizes,
    }


def test_equal_forwards_are_counted_together(tmp_path: Path) -> None:
    ledger = Ledger(ABOUT)
    ledger.add(3, [call(2, [2, 1])])
    ledger.add(3, [call(2, [2, 9])])
    ledger.add(3, [call(2, [2, 1])])
    ledger.add(1, [call(1)])
    path = tmp_path / "collectives-1.json"
    ledger.write(path)
    found = load(path, ProcessCollectives)
    assert [(f.size, f.count) for f in found.forwards] == [
        ((1, None), 1),
        ((3, (2, 1)), 2),
        ((3, (2, 9)), 1),
    ]
    assert found.forwards[1].calls[0].bytes == 32


def test_it_writes_when_there_is_news_only(tmp_path: Path) -> None:
    ledger = Ledger(ABOUT)
    path = tmp_path / "collectives-1.json"
    ledger.write(path)
    assert json.loads(path.read_text())["forwards"] == []
    path.unlink()
    ledger.write(path)
    assert not path.exists()
    ledger.add(1, [])
    ledger.write(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_every_stand_in_says_where_the_gap_is() -> None:
    assert set(cpu_sp.STAND_INS) == {
        "cpu-all-gatherv",
        "cpu-reduce-scatterv",
        "cpu-expert-map",
    }
    for name, stand_in in cpu_sp.STAND_INS.items():
        assert stand_in.name == name
        assert ".py:" in stand_in.reason
