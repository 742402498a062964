# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from harness.errors import InfrastructureError
from harness.measure.warmup import warm_up
from harness.models.endpoint import Endpoint
from harness.models.profile import Count, ServingCell
from tests.unit.measure.conftest import FakeServer

CELL = ServingCell(
    name="short",
    input_tokens=8,
    output_tokens=4,
    prompts=Count(full=8, quick=8),
    concurrency=3,
)


def test_two_rounds_of_different_prompts(endpoint: Endpoint, fake: FakeServer) -> None:
    assert warm_up(endpoint, CELL, seed=1, request_timeout=60) == 6
    prompts = {tuple(body["prompt"]) for body in fake.bodies}
    assert len(prompts) == 6
    assert {len(prompt) for prompt in prompts} == {8}


@pytest.mark.parametrize("fault", [{"status": 500}, {"tokens_short": 1}])
def test_a_failed_warm_up_is_told(
    endpoint: Endpoint, fake: FakeServer, fault: dict[str, int]
) -> None:
    for name, value in fault.items():
        setattr(fake, name, value)
    with pytest.raises(InfrastructureError, match="warm-up of short"):
        warm_up(endpoint, CELL, seed=1, request_timeout=60)
