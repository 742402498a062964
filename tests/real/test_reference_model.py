# SPDX-License-Identifier: Apache-2.0
"""The committed reference model on the real, pinned vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands._common import say
from harness.commands._measuring import load_profile
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.reference_results import ReferenceResults, ServerResult
from harness.models.series import Series
from harness.paths import Project
from harness.runtime.environment import ensure
from harness.workflows.reference_results import PROFILE, Subject, measure

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def results() -> ReferenceResults:
    """A quick measurement: 40 problems on each of the three servers."""
    project = Project(Path(__file__).resolve().parents[2])
    return measure(
        Subject(
            project=project,
            upstream=load(project.configs / "upstream.yaml", Upstream),
            series=load(project.patches / "series.yaml", Series),
            profile=load_profile(project, PROFILE),
            environment=ensure(project, "vllm-cpu", progress=say),
            quick=True,
            command="pytest",
        ),
        say,
    )


def rates(server: ServerResult, cell: str) -> tuple[float, ...]:
    (found,) = [a for a in server.acceptance if a.cell == cell]
    return found.rates


def test_the_model_solves_its_held_out_problems(results: ReferenceResults) -> None:
    for server in results.servers:
        assert server.accuracy[0].questions == 40
        assert server.accuracy[0].accuracy >= 0.85


def test_drafts_on_answers_are_accepted(results: ReferenceResults) -> None:
    one, two = results.servers[1:]
    assert (one.draft_tokens, two.draft_tokens) == (1, 2)
    assert rates(one, "answers")[0] >= 0.95
    assert rates(two, "answers")[1] >= 0.60


def test_text_that_runs_freely_leaves_room_to_fall(results: ReferenceResults) -> None:
    """A draft-side fault shows there before it shows on answers."""
    assert 0.4 < rates(results.servers[1], "free-text")[0] < 0.99


def test_speculation_does_not_change_an_answer(results: ReferenceResults) -> None:
    for found in results.agreement:
        assert found.same == found.answers == 40
        assert found.largest_logprob_difference < 1e-4
