# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.runtime.failure import Cause, Diagnosis, ServerError
from harness.workflows.verify.deaths import repeated

LINE = "RuntimeError: shape '[-1, 4, 128]' is invalid at model.py:12"


def _died(text: str = LINE, cause: Cause = Cause.EXCEPTION) -> ServerError:
    return ServerError(Diagnosis(cause, text), what="died", log=Path("none.log"))


def _raising(error: Exception) -> Callable[[], object]:
    def again() -> object:
        raise error

    return again


def test_the_same_exception_twice_is_no_accident() -> None:
    assert repeated(_died(), _raising(_died())) == LINE


@pytest.mark.parametrize(
    "second",
    [
        _died("RuntimeError: something else at model.py:12"),
        _died(cause=Cause.MEMORY),
        InfrastructureError("a request failed"),
    ],
)
def test_another_end_of_the_second_start_says_nothing(second: Exception) -> None:
    assert repeated(_died(), _raising(second)) == ""


def test_a_second_start_that_serves_says_nothing() -> None:
    assert repeated(_died(), lambda: None) == ""


@pytest.mark.parametrize(
    "error",
    [
        _died(cause=Cause.SIGNAL),
        _died(cause=Cause.TIMEOUT),
        _died(cause=Cause.PORT),
        InfrastructureError(LINE),
    ],
)
def test_what_is_of_the_machine_is_not_tried_again(error: InfrastructureError) -> None:
    def again() -> object:
        raise AssertionError("started again")

    assert repeated(error, again) == ""
