# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.workflows.verify.schedule import coverage_starts
from harness.workflows.verify.states import Comparison
from tests.support.servers import SETUP


def _comparisons(*patches: dict[str, str]) -> list[Comparison]:
    """Comparisons of patches, each given by the content that it leaves in its files."""
    blobs: dict[str, str] = {}
    states: list[Any] = [SimpleNamespace(label="base", blobs={})]
    comparisons = []
    for number, files in enumerate(patches, 1):
        blobs = blobs | files
        states.append(SimpleNamespace(label=f"{number:04}", blobs=blobs))
        targets = [SimpleNamespace(path=p, after=blob) for p, blob in files.items()]
        entry: Any = SimpleNamespace(targets=targets)
        comparisons.append(Comparison("", states[-2], states[-1], (entry,)))
    return comparisons


@pytest.mark.parametrize(
    ("patches", "traced"),
    [
        ([{"a": "a1"}, {"b": "b1"}], ["0002"]),
        ([{"a": "a1"}, {"a": "a2"}], ["0002", "0001"]),
        ([{"a": "a1", "c": "c1"}, {"a": "a2"}, {"b": "b1"}], ["0003", "0001"]),
        ([], []),
    ],
)
def test_states_are_traced_that_hold_each_file_as_its_patch_left_it(
    patches: list[dict[str, str]], traced: list[str]
) -> None:
    starts = coverage_starts(_comparisons(*patches), SETUP)
    assert [start.state.label for start in starts] == traced
