# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.probes.formula import evaluate


@given(a=st.integers(-99, 99), b=st.integers(1, 99))
def test_whole_number_arithmetic(a: int, b: int) -> None:
    found = evaluate("-a * (b + 2) // 3 - a % b", {"a": a, "b": b})
    assert found == -a * (b + 2) // 3 - a % b


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "a.b", "1.5", "a / 2", "a if a else 1", "'x'", "a[0]", "2 **"],
)
def test_nothing_else_is_evaluated(text: str) -> None:
    with pytest.raises(UsageError, match="no formula"):
        evaluate(text, {"a": 4})


def test_an_unknown_name_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown name c.*known: a, b"):
        evaluate("a + c", {"a": 1, "b": 2})


def test_division_by_zero_is_an_error_of_the_claim() -> None:
    with pytest.raises(UsageError, match="zero"):
        evaluate("a // 0", {"a": 1})
