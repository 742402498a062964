# SPDX-License-Identifier: Apache-2.0
"""Every way in which `vllm bench serve` exits 0 with nonsense must be refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfrastructureError
from harness.measure.bench_result import (
    Asked,
    Judged,
    check_against_server,
    judge,
    read,
)
from harness.measure.metrics import Snapshot

ASKED = Asked(
    requests=4, concurrency=2, input_tokens=8, output_tokens=5, model="m", positions=1
)
Data = dict[str, Any]


@pytest.fixture
def data() -> Data:
    """A valid result of four requests, in the shape v0.26.0 writes."""
    result: Data = {
        "num_prompts": 4,
        "max_concurrency": 2,
        "model_id": "m",
        "duration": 2.0,
        "completed": 4,
        "failed": 0,
        "total_input_tokens": 32,
        "total_output_tokens": 20,
        "request_throughput": 2.0,
        "output_throughput": 10.0,
        "input_lens": [8, 8, 8, 8],
        "output_lens": [5, 5, 5, 5],
        "ttfts": [0.1, 0.2, 0.1, 0.2],
        "itls": [[0.1, 0.1], [0.1, 0.0], [0.1, 0.1], [0.1]],
        "start_times": [1.0, 1.0, 2.0, 2.0],
        "generated_texts": ["a", "b", "c", "d"],
        "errors": ["", "", "", ""],
        "spec_decode_num_drafts": 10,
        "spec_decode_draft_tokens": 10,
        "spec_decode_accepted_tokens": 4,
        "spec_decode_acceptance_length": 1.4,
        "spec_decode_per_position_acceptance_rates": [0.4],
    }
    for name in ("ttft", "tpot", "itl", "e2el"):
        result |= {f"{kind}_{name}_ms": 12.5 for kind in ("mean", "median", "p99")}
    return result


def doctored(data: Data, change: Callable[[Data], object]) -> Data:
    result = copy.deepcopy(data)
    change(result)
    return result


def test_a_valid_result_is_read_whole(data: Data) -> None:
    judged = judge(data, ASKED, where="bench.json")
    assert judged.output_tokens_per_second == 10.0
    assert judged.latencies["tpot"].median == 12.5
    assert judged.drafts is not None
    assert judged.drafts.accepted_by_position == (4,)
    assert judged.drafts.length == pytest.approx(1.4)


def all_failed(data: Data) -> None:
    """vllm#30975: nothing completed, every metric 0.0, exit status 0."""
    data.update(completed=0, failed=4, output_throughput=0.0)
    data["errors"] = ["Bad Request"] * 4


def stream_broke_off(data: Data) -> None:
    """vllm#57519: an error in mid-stream is a success with a short output."""
    data["output_lens"][2] = 3
    data["total_output_tokens"] = 18
    data["output_throughput"] = 9.0


def prompts_inflated(data: Data) -> None:
    """vllm#42532: another tokenizer makes prompts five times as long."""
    data["input_lens"] = [40] * 4
    data["total_input_tokens"] = 160


def slightly_inflated(data: Data) -> None:
    """More than 1% off in the mean."""
    data["input_lens"] = [9, 8, 8, 8]
    data["total_input_tokens"] = 33


def undercounted_positions(data: Data) -> None:
    """vllm#23776: with several engines the rates by position fall short."""
    data["spec_decode_per_position_acceptance_rates"] = [0.2]


FAULTS: list[tuple[Callable[[Data], object], str]] = [
    (all_failed, "0 of 4 completed, 4 failed; the first error: Bad Request"),
    (lambda d: d.update(completed=1, failed=3), "1 of 4 completed"),
    (lambda d: d.update(completed=3), "3 of 4 completed"),
    (lambda d: d.update(failed=1), "1 failed"),
    (lambda d: d.pop("failed"), "failed is missing"),
    (lambda d: d.update(duration=0.0), "duration is 0"),
    (lambda d: d.update(duration=float("nan")), "not a number"),
    (lambda d: d.update(output_throughput=0.0), "output_throughput is 0"),
    (lambda d: d.update(output_throughput=99.0), "does not follow"),
    (lambda d: d.update(request_throughput=99.0), "does not follow"),
    (lambda d: d.update(median_ttft_ms=0.0), "median_ttft_ms is 0"),
    (lambda d: d.update(mean_tpot_ms=0.0), "mean_tpot_ms is 0"),
    (lambda d: d.pop("median_e2el_ms"), "median_e2el_ms is missing"),
    (lambda d: d.update(p99_itl_ms=-1.0), "p99_itl_ms is -1"),
    (lambda d: d["ttfts"].__setitem__(1, 0.0), "request 1 has a time to first"),
    (lambda d: d["itls"].__setitem__(0, []), "request 0 came in one chunk or none"),
    (lambda d: d["itls"].__setitem__(0, [-0.1]), "negative time between chunks"),
    (lambda d: d["errors"].__setitem__(3, "broken pipe"), "request 3 reports an error"),
    (lambda d: d.pop("ttfts"), "ttfts is missing"),
    (lambda d: d.pop("errors"), "errors is missing"),
    (lambda d: d["output_lens"].pop(), "output_lens has 3 entries for 4"),
    (stream_broke_off, "its stream broke off"),
    (lambda d: d.update(total_output_tokens=21), "total_output_tokens is not the sum"),
    (lambda d: d.update(total_input_tokens=31), "total_input_tokens is not the sum"),
    (prompts_inflated, "40 tokens in the mean, not 8"),
    (slightly_inflated, "8.25 tokens in the mean"),
    (lambda d: d.update(num_prompts=5), "num_prompts is 5"),
    (lambda d: d.update(max_concurrency=None), "max_concurrency is missing"),
    (lambda d: d.update(max_concurrency=1), "max_concurrency is 1"),
    (lambda d: d.update(model_id="other"), "model_id is 'other'"),
    (lambda d: d.pop("spec_decode_num_drafts"), "the scrape of the metrics failed"),
    (undercounted_positions, "is not 1 + the sum"),
    (
        lambda d: d.update(spec_decode_per_position_acceptance_rates=[0.4, 0.1]),
        "acceptance rates by position",
    ),
    (lambda d: d.update(spec_decode_accepted_tokens=5), "draft counts contradict"),
    (lambda d: d.update(spec_decode_draft_tokens=11), "draft counts contradict"),
]


@pytest.mark.parametrize(("change", "message"), FAULTS)
def test_nonsense_is_refused(
    data: Data, change: Callable[[Data], object], message: str
) -> None:
    with pytest.raises(InfrastructureError, match="no valid benchmark") as caught:
        judge(doctored(data, change), ASKED, where="bench.json")
    assert message in caught.value.line()


def test_draft_counts_without_speculation_are_refused(data: Data) -> None:
    with pytest.raises(InfrastructureError, match="does not speculate"):
        judge(data, replace(ASKED, positions=0), where="bench.json")


def test_without_speculation_no_draft_counts_are_wanted(data: Data) -> None:
    plain = {k: v for k, v in data.items() if not k.startswith("spec_decode")}
    assert judge(plain, replace(ASKED, positions=0), where="x").drafts is None


def test_equal_texts_have_equal_hashes(data: Data) -> None:
    again = judge(doctored(data, lambda d: d.update(duration=2.0)), ASKED, where="x")
    other = doctored(data, lambda d: d["generated_texts"].__setitem__(0, "z"))
    judged = judge(data, ASKED, where="x")
    assert judged.outputs_sha256 == again.outputs_sha256
    assert judged.outputs_sha256 != judge(other, ASKED, where="x").outputs_sha256


def test_a_missing_or_torn_file_is_refused(tmp_path: Path, data: Data) -> None:
    path = tmp_path / "bench.json"
    with pytest.raises(InfrastructureError, match="wrote no result"):
        read(path)
    path.write_text(json.dumps(data)[:-20])
    with pytest.raises(InfrastructureError, match="not whole"):
        read(path)
    path.write_text("[]")
    with pytest.raises(InfrastructureError, match="no result of a benchmark"):
        read(path)


def snapshot(**changes: float) -> Snapshot:
    name = "vllm:spec_decode_num"
    totals = {
        "vllm:prompt_tokens": 32.0,
        "vllm:generation_tokens": 20.0,
        "vllm:prefix_cache_hits": 0.0,
        f"{name}_drafts": 10.0,
        f"{name}_draft_tokens": 10.0,
        f"{name}_accepted_tokens": 4.0,
    }
    totals |= {f"vllm:{key}": value for key, value in changes.items()}
    return Snapshot(totals, {0: 4.0}, {"length": 4.0, "stop": 0.0})


def zero() -> Snapshot:
    return Snapshot(dict.fromkeys(snapshot().totals, 0.0), {0: 0.0}, {"length": 0.0})


@pytest.fixture
def judged(data: Data) -> Judged:
    return judge(data, ASKED, where="bench.json")


def test_server_and_client_agree(judged: Judged) -> None:
    check_against_server(judged, ASKED, zero(), snapshot())


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (snapshot(generation_tokens=19), "generation_tokens grew by 19"),
        (snapshot(prompt_tokens=160), "prompt_tokens grew by 160"),
        (snapshot(prefix_cache_hits=8), "came from the prefix cache"),
        (snapshot(spec_decode_num_drafts=11), "the benchmark reports"),
        (replace(snapshot(), by_reason={"length": 5.0}), "'length': 5"),
        (replace(snapshot(), by_reason={"length": 3.0, "error": 1.0}), "'error': 1"),
        (replace(snapshot(), by_reason={"length": 3.0, "abort": 1.0}), "'abort': 1"),
        (replace(snapshot(), by_reason={"length": 3.0, "stop": 1.0}), "'stop': 1"),
    ],
)
def test_server_and_client_differ(
    judged: Judged, after: Snapshot, message: str
) -> None:
    with pytest.raises(InfrastructureError) as caught:
        check_against_server(judged, ASKED, zero(), after)
    assert message in caught.value.line()
