# SPDX-License-Identifier: Apache-2.0
"""The draft's collectives against the claims of a patch: as claimed, and no more."""

from __future__ import annotations

import pytest

from harness.evidence.gates.collectives import collective_signal
from harness.models.collectives import Call, CollectiveFacts, DraftForwards
from harness.models.series import CollectiveClaim
from harness.models.signal import Answer

HIDDEN = 8
HALVED = (CollectiveClaim(kind="tp.all_gather", bytes_ratio=0.5),)


def call(op: str, rows: int, width: int) -> Call:
    return Call(
        group="tp",
        op=op,
        shape=((rows, width),),
        dtype=("float32",),
        bytes=4 * rows * width,
        arguments=(0,),
    )


def facts(
    width: int, *, tokens: tuple[int, ...] = (1, 4), extra: bool = False
) -> CollectiveFacts:
    """Forwards that gather ``width`` values of each row."""
    more = (call("all_reduce", 1, HIDDEN),) if extra else ()
    return CollectiveFacts(
        draft="Draft",
        processes=4,
        stand_ins=(),
        forwards=tuple(
            DraftForwards(
                tokens=n,
                count=n,
                calls=(
                    call("all_reduce", n, HIDDEN),
                    call("all_gather", n, width),
                    *more,
                ),
            )
            for n in tokens
        ),
    )


def test_a_claimed_change_that_shows_is_fine() -> None:
    found = collective_signal(facts(2 * HIDDEN), facts(HIDDEN), HALVED, name="draft")
    assert found.answer is Answer.BETTER_OR_EQUAL
    assert "tp.all_gather from 64 to 32 bytes per row" in found.reason
    assert "2 calls equal over 2 forward sizes" in found.reason


@pytest.mark.parametrize(
    ("patched", "claims", "named"),
    [
        (facts(HIDDEN), (), "no claim says so"),
        (facts(2 * HIDDEN), HALVED, "tp.all_gather did not change as claimed"),
        (facts(HIDDEN // 2), HALVED, "no claim says so"),
        (facts(HIDDEN, extra=True), HALVED, "tp.all_reduce"),
    ],
    ids=["unclaimed", "unmoved", "too far", "a collective more"],
)
def test_anything_else_is_worse(
    patched: CollectiveFacts, claims: tuple[CollectiveClaim, ...], named: str
) -> None:
    found = collective_signal(facts(2 * HIDDEN), patched, claims, name="draft")
    assert found.answer is Answer.WORSE
    assert named in found.reason


def test_forwards_of_no_common_size_tell_nothing() -> None:
    one, other = facts(HIDDEN, tokens=(1,)), facts(HIDDEN, tokens=(2,))
    assert collective_signal(one, other, (), name="draft").answer is Answer.CANT_TELL
