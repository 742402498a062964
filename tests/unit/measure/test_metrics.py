# SPDX-License-Identifier: Apache-2.0
"""Counters: summed over engines, subtracted, and held to their own identities."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import InfrastructureError
from harness.measure import metrics
from harness.measure.metrics import Snapshot, parse
from harness.models.endpoint import Endpoint
from harness.models.facts import StepFacts

NAME = "vllm:spec_decode_num"
TEXT = """\
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 30.0
vllm:generation_tokens_total{engine="1",model_name="m"} 12.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1.79e+09
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0"} 10.0
vllm:spec_decode_num_drafts_total{engine="1"} 5.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 6.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="1"} 0.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop"} 2.0
vllm:request_success_total{engine="1",finished_reason="stop"} 1.0
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.1"} 3.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf"} 4.0
vllm:inter_token_latency_seconds_count{engine="0"} 4.0
vllm:inter_token_latency_seconds_sum{engine="0"} 0.5
vllm:inter_token_latency_seconds_bucket{engine="1",le="+Inf"} 1.0
vllm:inter_token_latency_seconds_count{engine="1"} 1.0
vllm:inter_token_latency_seconds_sum{engine="1"} 0.25
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",engine="0",num_gpu_blocks="64"} 1.0
vllm:cache_config_info{block_size="128",engine="1",num_gpu_blocks="32"} 1.0
"""


def snapshot(drafts: float, tokens: float, accepted: float, *by: float) -> Snapshot:
    totals = {
        f"{NAME}_drafts": drafts,
        f"{NAME}_draft_tokens": tokens,
        f"{NAME}_accepted_tokens": accepted,
    }
    return Snapshot(totals, dict(enumerate(by)))


ZERO = snapshot(0, 0, 0, 0, 0)


def test_engines_are_summed() -> None:
    found = parse(TEXT)
    assert found.totals["vllm:generation_tokens"] == 42
    assert found.totals[f"{NAME}_drafts"] == 15
    assert found.by_position == {0: 9, 1: 2}
    assert found.by_reason == {"stop": 3}
    assert (found.cache_blocks, found.block_tokens) == (96, 128)
    assert found.steps == StepFacts(count=5, seconds=0.75)
    assert found.steps.mean_ms == 150
    assert ZERO.steps is None


@pytest.mark.parametrize("text", ["", "<html>not metrics</html>", "a b c d\n"])
def test_text_without_counters_is_refused(text: str) -> None:
    with pytest.raises(InfrastructureError, match="metrics"):
        parse(text)


def test_drafts_are_the_difference() -> None:
    before, after = snapshot(5, 10, 4, 3, 1), snapshot(15, 30, 16, 12, 4)
    found = metrics.require_drafts(before, after, 2)
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (10, 20, 12)
    assert found.rates == (0.9, 0.3)
    assert found.length == pytest.approx(1 + sum(found.rates))
    assert found.trimmed == 0


def test_trimmed_drafts_are_told() -> None:
    found = metrics.require_drafts(ZERO, snapshot(10, 15, 6, 4, 2), 2)
    assert found.trimmed == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (snapshot(10, 20, 12, 9, 2), "is not 1 + sum of the rates"),
        (snapshot(10, 20, 25, 15, 10), "more tokens accepted than drafted"),
        (snapshot(10, 21, 12, 9, 3), "more tokens drafted"),
        (snapshot(10, 20, 12, 3, 9), "a later position accepted more"),
        (snapshot(10, 20, 12, 12, 0), "more drafts accepted than made"),
        (snapshot(10, 20, 12.5, 9, 3.5), "grew by 12.5"),
        (snapshot(0, 0, 0, 0, 0), "drafts"),
    ],
)
def test_contradictions_are_refused(after: Snapshot, message: str) -> None:
    with pytest.raises(InfrastructureError) as caught:
        metrics.require_drafts(ZERO, after, 2)
    assert message in caught.value.line()


def test_a_restarted_server_is_noticed() -> None:
    with pytest.raises(InfrastructureError, match="went down"):
        metrics.drafts(snapshot(5, 10, 4, 3, 1), ZERO)


def test_missing_speculation_is_noticed() -> None:
    plain = Snapshot({"vllm:generation_tokens": 1.0})
    assert metrics.drafts(plain, plain) is None
    with pytest.raises(InfrastructureError, match="started with speculation"):
        metrics.require_drafts(plain, plain, 1)
    with pytest.raises(InfrastructureError, match="count 2 draft positions"):
        metrics.require_drafts(ZERO, snapshot(10, 20, 12, 9, 3), 3)


def test_a_position_that_appears_late_is_refused() -> None:
    before = replace(ZERO, by_position={0: 0.0})
    with pytest.raises(InfrastructureError, match="other draft positions"):
        metrics.drafts(before, snapshot(10, 20, 12, 9, 3))


@pytest.mark.parametrize(("hits", "refused"), [(1, False), (2, True)])
def test_prefix_hits_over_one_percent_are_refused(hits: int, refused: bool) -> None:
    names = ("vllm:prefix_cache_hits", "vllm:prompt_tokens")
    before = Snapshot(dict.fromkeys(names, 0.0))
    after = Snapshot(dict(zip(names, (float(hits), 150.0), strict=True)))
    if not refused:
        metrics.check_prefix_cache(before, after)
        return
    with pytest.raises(InfrastructureError, match="prefix cache"):
        metrics.check_prefix_cache(before, after)


def test_nobody_there_is_an_infrastructure_error(endpoint: Endpoint) -> None:
    gone = endpoint.model_copy(update={"base_url": "http://127.0.0.1:9"})
    with pytest.raises(InfrastructureError, match="can't be read"):
        metrics.scrape(gone, timeout=2)
