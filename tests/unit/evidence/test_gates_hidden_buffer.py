# SPDX-License-Identifier: Apache-2.0
"""The served buffer against the claims of a patch: as claimed, and no more."""

from __future__ import annotations

import pytest

from harness.evidence.gates.hidden_buffer import hidden_buffer_signal
from harness.models.hidden_buffer import Buffer, HiddenBufferFacts, ServedClass
from harness.models.series import HiddenBufferClaim
from harness.models.signal import Answer, Signal

AMD = "vllm.models.deepseek_v4.amd.model"
CLAIM = HiddenBufferClaim(module=AMD, methods=("mtp", "eagle"))
OTHER = HiddenBufferClaim(module="vllm.models.deepseek_v4.xpu.model", methods=("mtp",))
BUFFER = Buffer(shape=(8, 16), dtype="bfloat16", bytes=256)


def facts(
    buffer: Buffer | None, *, rows: int = 20, right: int | None = None
) -> HiddenBufferFacts:
    filled = rows if right is None else right
    return HiddenBufferFacts(
        pid=1,
        role="VllmWorker",
        model=f"{AMD}.DeepseekV4ForCausalLM",
        classes=(ServedClass(name=f"{AMD}.DeepseekV4Model"),),
        buffer=buffer,
        forwards=3,
        rows=rows,
        rows_of_residual=filled if buffer else 0,
    )


def judge(
    base: HiddenBufferFacts,
    patched: HiddenBufferFacts,
    method: str | None,
    *claims: HiddenBufferClaim,
) -> Signal:
    return hidden_buffer_signal(base, patched, claims, method=method, name="buffer")


@pytest.mark.parametrize("method", [None, "ngram"])
def test_it_goes_when_nothing_reads_it(method: str | None) -> None:
    found = judge(facts(BUFFER), facts(None), method, CLAIM)
    assert found.answer is Answer.BETTER_OR_EQUAL
    assert "256 bytes (8 x 16 bfloat16) -> no buffer" in found.reason


def test_it_stays_for_a_draft_that_reads_it() -> None:
    found = judge(facts(BUFFER), facts(BUFFER, rows=24), "mtp", CLAIM)
    assert found.answer is Answer.BETTER_OR_EQUAL
    assert "20 and 24 rows" in found.reason


@pytest.mark.parametrize("method", [None, "ngram"])
def test_it_must_not_stay_against_the_claim(method: str | None) -> None:
    assert judge(facts(BUFFER), facts(BUFFER), method, CLAIM).answer is Answer.WORSE


def test_it_must_not_go_when_a_draft_reads_it() -> None:
    assert judge(facts(BUFFER), facts(None), "mtp", CLAIM).answer is Answer.WORSE


@pytest.mark.parametrize("claims", [(), (OTHER,)])
def test_without_a_claim_for_this_model_nothing_may_change(
    claims: tuple[HiddenBufferClaim, ...],
) -> None:
    assert judge(facts(BUFFER), facts(None), None, *claims).answer is Answer.WORSE
    same = judge(facts(BUFFER), facts(BUFFER), None, *claims)
    assert same.answer is Answer.BETTER_OR_EQUAL


def test_another_size_is_a_change() -> None:
    half = Buffer(shape=(4, 16), dtype="bfloat16", bytes=128)
    assert judge(facts(BUFFER), facts(half), "mtp", CLAIM).answer is Answer.WORSE


@pytest.mark.parametrize("right", [0, 19])
def test_every_row_must_be_filled(right: int) -> None:
    found = judge(facts(BUFFER), facts(BUFFER, right=right), "mtp", CLAIM)
    assert found.answer is Answer.WORSE
    assert f"only {right} of 20 rows" in found.reason


def test_an_unpatched_tree_that_does_not_fill_it_proves_nothing() -> None:
    found = judge(facts(BUFFER, right=3), facts(BUFFER), "mtp", CLAIM)
    assert found.answer is Answer.INVALID


def test_a_replaced_method_proves_nothing() -> None:
    replaced = ServedClass(name=f"{AMD}.DeepseekV4Model", foreign=("forward",))
    other = facts(None).model_copy(update={"classes": (replaced,)})
    for base, patched in ((facts(BUFFER), other), (other, facts(None))):
        found = judge(base, patched, None, CLAIM)
        assert found.answer is Answer.INVALID
        assert f"{AMD}.DeepseekV4Model.forward" in found.reason


def test_two_models_are_not_compared() -> None:
    other = facts(BUFFER).model_copy(update={"model": "other.Model"})
    assert judge(facts(BUFFER), other, "mtp", CLAIM).answer is Answer.INVALID
