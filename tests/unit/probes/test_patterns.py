# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from harness.models.claims import Ranks
from harness.probes.patterns import capture, has_rank, matches


def test_integers_are_captured() -> None:
    assert capture("n37/tp.all_gather.2.bytes", "n{n}/tp.*.{i}.bytes") == {
        "n": 37,
        "i": 2,
    }


@pytest.mark.parametrize("name", ["nx/copies", "n3/copies/more", "xn3/copies"])
def test_a_pattern_fits_the_whole_name(name: str) -> None:
    assert capture(name, "n{n}/copies") is None


def test_shell_patterns_and_dots_that_are_dots() -> None:
    assert matches("buffer.bytes", ["buffer.*"])
    assert not matches("bufferXbytes", ["buffer.bytes"])
    assert matches("1-ngram/ended", ["?-*/ended"])


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ("all", [True, True, True]),
        ("first", [True, False, False]),
        ("last", [False, False, True]),
        ((0, 2), [True, False, True]),
    ],
)
def test_ranks(ranks: Ranks, expected: list[bool]) -> None:
    assert [has_rank(ranks, rank, 3) for rank in range(3)] == expected
