# SPDX-License-Identifier: Apache-2.0
"""Throughput and latency: the pinned version's own ``vllm bench serve``, judged.

The benchmark exits 0 whatever happened: failed requests, zeros for everything, streams
that broke off. So its result counts only after harness/measure/bench_result.py and the
server's own counters agree that all that was asked for was done.
"""

from __future__ import annotations

from pathlib import Path

from harness import processes
from harness.errors import InfrastructureError
from harness.measure import bench_result, metrics
from harness.measure.runner import Heartbeat, Runner
from harness.measure.warmup import warm_up
from harness.models.endpoint import Endpoint
from harness.models.facts import ServingFacts
from harness.models.profile import Deadlines, ServingCell, Speculation

MODULE = "vllm.entrypoints.cli.main"
RESULT = "bench.json"
LOG = "bench.log"


def measure(
    runner: Runner,
    endpoint: Endpoint,
    cell: ServingCell,
    folder: Path,
    *,
    prompts: int,
    seed: int,
    speculation: Speculation | None,
    deadlines: Deadlines,
    heartbeat: Heartbeat | None = None,
) -> ServingFacts:
    """Warm up, run the benchmark once, and judge its result.

    Args:
        runner: The tree whose benchmark client runs; the same for all states that
            are compared.
        folder: Gets the client's log and its result file, whole.
        prompts: How many requests.
        seed: Chooses the prompts; equal seeds are equal prompts.
        speculation: What the server was started with.

    Raises:
        InfrastructureError: Anything failed, is missing, zero, short or contradicts.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / RESULT
    result.unlink(missing_ok=True)
    warm_up(endpoint, cell, seed=seed, request_timeout=deadlines.request)
    before = _quiet(endpoint)
    arguments = client_arguments(endpoint, cell, result, prompts=prompts, seed=seed)
    command = runner.command(MODULE, *arguments)
    processes.run(
        command,
        log=folder / LOG,
        timeout=deadlines.serving,
        env={**runner.env, "OPENAI_API_KEY": endpoint.api_key},
        cwd=folder,
        heartbeat=heartbeat,
    ).check("vllm bench serve")
    after = metrics.settled(endpoint, before, prompts)
    asked = bench_result.Asked(
        requests=prompts,
        concurrency=cell.concurrency,
        input_tokens=cell.input_tokens,
        output_tokens=cell.output_tokens,
        model=endpoint.model,
        positions=speculation.num_speculative_tokens if speculation else 0,
    )
    judged = bench_result.judge(bench_result.read(result), asked, where=str(result))
    bench_result.check_against_server(judged, asked, before, after)
    return judged.facts(cell, seed=seed, command=command)


def client_arguments(
    endpoint: Endpoint, cell: ServingCell, result: Path, *, prompts: int, seed: int
) -> list[str]:
    """What follows ``vllm``; nothing is left to a default that matters."""
    mode = endpoint.tokenizer_mode
    return [
        "bench",
        "serve",
        *("--backend", "openai"),
        *("--base-url", endpoint.base_url),
        *("--endpoint", "/v1/completions"),
        *("--model", endpoint.model),
        *("--served-model-name", endpoint.model),
        *("--tokenizer", str(endpoint.tokenizer)),
        *(["--tokenizer-mode", mode] if mode else []),
        *("--dataset-name", cell.dataset),
        *("--random-input-len", str(cell.input_tokens)),
        *("--random-output-len", str(cell.output_tokens)),
        *("--random-range-ratio", "0"),
        *("--random-prefix-len", "0"),
        *("--num-prompts", str(prompts)),
        *("--max-concurrency", str(cell.concurrency)),
        *("--request-rate", "inf"),
        *("--seed", str(seed)),
        *("--temperature", "0"),
        "--ignore-eos",
        # Both would send the first measured prompt once more before measuring; our
        # own warm-up has shown that the server answers.
        *("--ready-check-timeout-sec", "0"),
        *("--num-warmups", "0"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el"),
        *("--metric-percentiles", "50,90,99"),
        "--save-result",
        "--save-detailed",
        *("--result-dir", str(result.parent)),
        *("--result-filename", result.name),
        "--disable-tqdm",
    ]


def _quiet(endpoint: Endpoint) -> metrics.Snapshot:
    """Counters of a server that nobody uses: two looks in a row agree."""
    before = metrics.scrape(endpoint)
    for _ in range(50):
        again = metrics.settled(endpoint, before, 1, patience=0.2)
        if again.work == before.work:
            return before
        before = again
    raise InfrastructureError(
        "the server is busy with requests of others", where=metrics.WHERE
    )
