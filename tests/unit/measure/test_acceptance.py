# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from harness.errors import InfrastructureError
from harness.measure import acceptance
from harness.models.endpoint import Endpoint
from harness.models.facts import AcceptanceFacts, QuestionSource
from harness.models.profile import AcceptanceCell, Count
from tests.unit.measure.conftest import FakeServer

CELL = AcceptanceCell(
    name="answers",
    fewshot=1,
    prompts=Count(full=5, quick=5),
    output_tokens=4,
    batch=2,
)
PROMPTS = [f"prompt {i}" for i in range(5)]


def run(
    endpoint: Endpoint, source: QuestionSource, cell: AcceptanceCell = CELL
) -> AcceptanceFacts:
    return acceptance.measure(
        endpoint, cell, PROMPTS, source, positions=1, request_timeout=60
    )


def test_each_batch_is_counted(
    endpoint: Endpoint, fake: FakeServer, source: QuestionSource
) -> None:
    facts = run(endpoint, source)
    assert [batch.drafts for batch in facts.batches] == [8, 8, 4]
    assert facts.total.accepted_tokens == facts.output_tokens == 20
    assert facts.total.rates == (1.0,)
    assert {body["temperature"] for body in fake.bodies} == {0}
    assert all(body["ignore_eos"] for body in fake.bodies)


def test_stopping_is_left_to_the_engine(
    endpoint: Endpoint, fake: FakeServer, source: QuestionSource
) -> None:
    cell = CELL.model_copy(update={"stop_token_ids": (7,)})
    fake.finish_reason, fake.tokens_short = "stop", 2
    assert run(endpoint, source, cell).output_tokens == 10
    assert fake.bodies[0]["stop_token_ids"] == [7]
    assert not fake.bodies[0]["ignore_eos"]
    assert "stop" not in fake.bodies[0]


def test_other_prompts_have_another_hash(
    endpoint: Endpoint, source: QuestionSource
) -> None:
    first = run(endpoint, source)
    other = acceptance.measure(
        endpoint, CELL, PROMPTS[::-1], source, positions=1, request_timeout=60
    )
    assert first.prompts_sha256 != other.prompts_sha256


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"status": 400}, "HTTP 400"),
        ({"tokens_short": 1}, "ended after 3 tokens"),
        ({"finish_reason": "abort"}, r"ended after 4 tokens \(abort\)"),
        ({"finish_reason": "stop"}, r"ended after 4 tokens \(stop\)"),
        ({"uncounted": 1}, "count 2 requests and 6 tokens, the batch had 2 and 8"),
        ({"stranger": 1}, "count 4 requests"),
        ({"speculates": False}, "started with speculation"),
        ({"lost_position": True}, "is not 1 \\+ sum"),
        ({"accept": 2}, "more tokens accepted"),
    ],
)
def test_a_fault_is_no_number(
    endpoint: Endpoint,
    fake: FakeServer,
    source: QuestionSource,
    fault: dict[str, object],
    message: str,
) -> None:
    for name, value in fault.items():
        setattr(fake, name, value)
    with pytest.raises(InfrastructureError, match=message):
        run(endpoint, source)
