# SPDX-License-Identifier: Apache-2.0
"""Counts of serving workers: added up, refused when they can't speak, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfrastructureError
from harness.measure import collectives
from harness.models.collectives import CollectiveFacts, compare

HIDDEN = 8


def call(op: str, rows: int, width: int, group: str = "tp") -> dict[str, Any]:
    return {
        "group": group,
        "op": op,
        "shape": [[rows, width]],
        "dtype": ["float32"],
        "bytes": 4 * rows * width,
        "arguments": [0],
    }


def forward(tokens: int, count: int = 1, gathered: int = 2 * HIDDEN) -> dict[str, Any]:
    """As in a group of two: an all-reduce of all rows, a gather of half of them."""
    rows = (tokens + 1) // 2
    calls = [call("all_reduce", tokens, HIDDEN), call("all_gather", rows, gathered)]
    return {"tokens": tokens, "count": count, "calls": calls}


def worker(pid: int, *forwards: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "role": f"VllmWorker-{pid}",
        "draft": "Draft",
        "tensor_rank": pid % 2,
        "data_rank": 0,
        "eager": True,
        "stand_ins": [{"name": "a", "replaces": "b", "reason": "c"}],
        "forwards": list(forwards),
        **changes,
    }


def write(folder: Path, *workers: dict[str, Any]) -> Path:
    for data in workers:
        path = folder / f"collectives-{data['pid']}.json"
        path.write_text(json.dumps(data))
    return folder


def facts(folder: Path, *workers: dict[str, Any]) -> CollectiveFacts:
    folder.mkdir(exist_ok=True)
    return collectives.collect(write(folder, *workers), len(workers))


def test_workers_are_added_up_by_number_of_tokens(tmp_path: Path) -> None:
    found = facts(
        tmp_path, worker(1, forward(4, 2), forward(1)), worker(2, forward(4, 3))
    )
    assert [(f.tokens, f.count) for f in found.forwards] == [(1, 1), (4, 5)]
    assert found.processes == 2
    assert [s.name for s in found.stand_ins] == ["a"]
    gather, reduce = found.totals
    assert (gather.op, gather.calls, gather.rows) == ("all_gather", 6, 5 * 2 + 1)
    assert gather.bytes == gather.rows * 2 * HIDDEN * 4
    assert (reduce.calls, reduce.rows) == (6, 5 * 4 + 1)
    assert found.bytes == gather.bytes + reduce.bytes


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (None, "1 processes counted"),
        (worker(2, forward(4), eager=False), "compiled"),
        (worker(2), "ran no forward"),
        (worker(2, forward(4), draft="Other"), "differ in draft model"),
        (worker(2, forward(4), stand_ins=[]), "differ in draft model"),
        (worker(2, forward(4, gathered=3)), "forwards of 4 tokens made different"),
        (worker(2, forward(4, count=0)), "unreadable counts"),
    ],
)
def test_counts_that_say_nothing_are_refused(
    tmp_path: Path, second: dict[str, Any] | None, message: str
) -> None:
    write(tmp_path, worker(1, forward(4)), *([second] if second else []))
    with pytest.raises(InfrastructureError, match=message):
        collectives.collect(tmp_path, 2)


def test_a_half_written_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "collectives-7.json").write_text('{"pid": 7, ')
    with pytest.raises(InfrastructureError, match=r"collectives-7\.json: unreadable"):
        collectives.collect(tmp_path, 1)


def test_settled_waits_for_the_last_write(tmp_path: Path) -> None:
    write(tmp_path, worker(1, forward(4)))
    later = [worker(1, forward(4, 2)), worker(1, forward(4, 3))]

    def sleep(seconds: float) -> None:
        if later:
            (tmp_path / "collectives-1.json").unlink()
            write(tmp_path, later.pop(0))

    found = collectives.settled(tmp_path, 1, sleep=sleep)
    assert found.count == 3


def test_settled_gives_up_on_a_busy_server(tmp_path: Path) -> None:
    write(tmp_path, worker(1, forward(4)))
    with pytest.raises(InfrastructureError, match="still change"):
        collectives.settled(tmp_path, 1, patience=-1.0, sleep=lambda seconds: None)


def test_a_narrower_gather_is_the_one_change(tmp_path: Path) -> None:
    base = facts(tmp_path / "a", worker(1, forward(1), forward(4), forward(9)))
    patched = facts(
        tmp_path / "b",
        worker(1, *(forward(n, 7, gathered=HIDDEN) for n in (4, 5, 9))),
    )
    found = compare(base, patched)
    assert found.tokens == (4, 9)
    assert found.equal_calls == 2
    (change,) = found.changes
    assert (change.base, change.patched) == ("tp.all_gather", "tp.all_gather")
    assert change.bytes_per_row == (2 * HIDDEN * 4, HIDDEN * 4)
    assert change.tokens == (4, 9)


def test_only_forwards_beside_equal_batches_are_compared(tmp_path: Path) -> None:
    """What is summed over the ranks has the rows of all of them."""

    def beside(*sizes: int, gathered: int) -> dict[str, Any]:
        calls = [
            call("reduce_scatterv", sum(sizes), HIDDEN, "ep"),
            call("all_gather", 1, gathered),
        ]
        return {"tokens": 2, "sizes": list(sizes), "count": 1, "calls": calls}

    wide = [beside(1, 1, gathered=2 * HIDDEN), beside(1, 9, gathered=2 * HIDDEN)]
    base = facts(tmp_path / "a", worker(1, *wide))
    narrow = [beside(1, 1, gathered=HIDDEN), beside(1, 5, gathered=HIDDEN)]
    found = compare(base, facts(tmp_path / "b", worker(1, *narrow)))
    assert (found.tokens, found.equal_calls) == ((2,), 1)
    (change,) = found.changes
    assert change.base == "tp.all_gather"


def test_a_call_more_or_less_is_a_change(tmp_path: Path) -> None:
    more = forward(4)
    more["calls"] = [*more["calls"], call("all_reduce", 4, HIDDEN, "ep")]
    base = facts(tmp_path / "a", worker(1, forward(4)))
    patched = facts(tmp_path / "b", worker(1, more))
    (change,) = compare(base, patched).changes
    assert (change.position, change.base, change.patched) == (2, None, "ep.all_reduce")
    assert change.bytes_per_row == (None, 4 * HIDDEN)
    (back,) = compare(patched, base).changes
    assert (back.base, back.patched) == ("ep.all_reduce", None)


def test_equal_trees_have_no_changes(tmp_path: Path) -> None:
    base = facts(tmp_path / "a", worker(1, forward(4), forward(6)))
    found = compare(base, base)
    assert found.changes == ()
    assert found.equal_calls == 4
