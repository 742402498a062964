# SPDX-License-Identifier: Apache-2.0
"""The path around ``vllm bench serve``, with a stand-in that asks and writes as it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.measure import serving
from harness.models.endpoint import Endpoint
from harness.models.facts import ServingFacts
from harness.models.profile import Count, Deadlines, ServingCell, Speculation
from tests.unit.measure.conftest import FakeServer

CELL = ServingCell(
    name="short",
    input_tokens=8,
    output_tokens=4,
    prompts=Count(full=4, quick=4),
    concurrency=2,
)
DEADLINES = Deadlines(start=60, stall=60, request=60, accuracy=60, serving=120)
MTP = Speculation(method="mtp", num_speculative_tokens=1)

STAND_IN = """
import json, os, pathlib, sys, urllib.request
def after(flag): return sys.argv[sys.argv.index(flag) + 1]
asked = os.environ["OPENAI_API_KEY"]
count, size = int(after("--num-prompts")), int(after("--random-output-len"))
length = int(after("--random-input-len"))
for number in range(count - int(os.environ.get("LOSE", 0))):
    body = {"prompt": [number] * length, "max_tokens": size}
    request = urllib.request.Request(after("--base-url") + after("--endpoint"),
        json.dumps(body).encode(), {"Authorization": "Bearer " + asked})
    urllib.request.urlopen(request).read()
if os.environ.get("SILENT"): sys.exit(0)
drafts = count * size
data = {"num_prompts": count, "max_concurrency": int(after("--max-concurrency")),
    "model_id": after("--model"), "duration": 2.0, "completed": count, "failed": 0,
    "total_input_tokens": count * length, "total_output_tokens": count * size,
    "request_throughput": count / 2, "output_throughput": count * size / 2,
    "input_lens": [length] * count, "output_lens": [size] * count,
    "ttfts": [0.1] * count, "itls": [[0.1]] * count, "start_times": [1.0] * count,
    "generated_texts": ["a"] * count, "errors": [""] * count,
    "spec_decode_num_drafts": drafts, "spec_decode_draft_tokens": drafts,
    "spec_decode_accepted_tokens": drafts, "spec_decode_acceptance_length": 2.0,
    "spec_decode_per_position_acceptance_rates": [1.0]}
for name in ("ttft", "tpot", "itl", "e2el"):
    data |= {f"{kind}_{name}_ms": 1.0 for kind in ("mean", "median", "p99")}
(pathlib.Path(after("--result-dir")) / after("--result-filename")).write_text(
    json.dumps(data))
"""


@dataclass
class StandIn:
    """Runs the stand-in in place of vLLM's command."""

    env: dict[str, str] = field(default_factory=dict)

    def command(self, module: str, *arguments: str) -> list[str]:
        assert module == serving.MODULE
        return [sys.executable, "-c", STAND_IN, *arguments]


def run(endpoint: Endpoint, folder: Path, runner: StandIn) -> ServingFacts:
    return serving.measure(
        runner,
        endpoint,
        CELL,
        folder,
        prompts=4,
        seed=3,
        speculation=MTP,
        deadlines=DEADLINES,
    )


def test_what_client_and_server_agree_on_is_measured(
    endpoint: Endpoint, fake: FakeServer, tmp_path: Path
) -> None:
    facts = run(endpoint, tmp_path, StandIn())
    assert facts.output_tokens_per_second == 8.0
    assert facts.drafts is not None
    assert facts.drafts.length == 2.0
    # Two rounds of warm-up, then the four that are measured.
    assert len(fake.bodies) == 8
    assert "secret" not in facts.command


def test_requests_that_never_came_are_noticed(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    with pytest.raises(InfrastructureError, match="finished requests are"):
        run(endpoint, tmp_path, StandIn({"LOSE": "1"}))


def test_an_earlier_result_is_not_taken_for_this_one(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    run(endpoint, tmp_path, StandIn())
    with pytest.raises(InfrastructureError, match="wrote no result"):
        run(endpoint, tmp_path, StandIn({"SILENT": "1"}))


def test_nothing_that_matters_is_left_to_a_default(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    arguments = serving.client_arguments(
        endpoint, CELL, tmp_path / "r.json", prompts=4, seed=3
    )
    pairs = dict(pairwise(arguments))
    assert pairs["--temperature"] == "0"
    assert pairs["--seed"] == "3"
    assert pairs["--num-warmups"] == "0"
    assert pairs["--max-concurrency"] == "2"
    assert {"--ignore-eos", "--save-detailed", "--save-result"} <= set(arguments)


def test_the_benchmark_has_the_tokenizer_of_the_server(tmp_path: Path) -> None:
    plain = Endpoint(base_url="http://x", api_key="k", model="m", tokenizer=Path("a/b"))
    moded = plain.model_copy(update={"tokenizer_mode": "slow"})

    def words(endpoint: Endpoint) -> list[str]:
        return serving.client_arguments(endpoint, CELL, tmp_path, prompts=4, seed=1)

    assert "--tokenizer-mode" not in words(plain)
    place = words(moded).index("--tokenizer-mode")
    assert words(moded)[place - 1 : place + 2] == ["a/b", "--tokenizer-mode", "slow"]
