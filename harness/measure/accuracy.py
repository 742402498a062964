# SPDX-License-Identifier: Apache-2.0
"""Accuracy: lm-eval's own task through the completions endpoint, every sample kept."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

from harness import files, processes
from harness.errors import InfrastructureError
from harness.measure import lm_eval_output
from harness.measure.lm_eval_output import Asked
from harness.measure.questions import PUBLIC, Questions
from harness.measure.recorder import Recorder
from harness.measure.runner import Client, Heartbeat
from harness.models.endpoint import Endpoint
from harness.models.facts import AccuracyFacts
from harness.models.profile import AccuracyCell, Deadlines

MODULE = "harness.inside.lm_eval_local"
"""Takes the words of ``lm_eval``, which answers the same with every task indexed."""
LOG = "lm-eval.log"
OUTPUT = "lm-eval"
LOCAL_TASK = "local_{task}"
"""Name of the task that reads local files, else the same as lm-eval's own."""


def measure(
    client: Client,
    endpoint: Endpoint,
    cell: AccuracyCell,
    questions: Questions,
    folder: Path,
    *,
    count: int,
    deadlines: Deadlines,
    heartbeat: Heartbeat | None = None,
) -> AccuracyFacts:
    """Ask the first ``count`` questions of the set (all, if it has fewer).

    Args:
        client: The environment of lm-eval.
        folder: Gets lm-eval's log, results and samples, and the raw exchanges.

    Raises:
        InfrastructureError: A request failed, a sample is missing or contradicts what
            the server answered, or lm-eval itself failed.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / OUTPUT
    if output.exists():
        shutil.rmtree(output)
    count = min(count, questions.source.test)
    task = LOCAL_TASK.format(task=cell.task)
    tasks = write_task(client, cell, task, questions, folder)
    began = time.monotonic()
    with (
        Recorder(endpoint, timeout=deadlines.request) as recorder,
        # lm-eval's own copy of the data; in a shared one a partial copy would stay.
        tempfile.TemporaryDirectory(prefix="harness-datasets-") as copies,
    ):
        arguments = client_arguments(
            cell, task, recorder.url, endpoint.model, output, tasks, count, deadlines
        )
        command = client.command(MODULE, *arguments)
        finished = processes.run(
            command,
            log=folder / LOG,
            timeout=deadlines.accuracy,
            env=_environment(client, endpoint, copies),
            cwd=folder,
            heartbeat=heartbeat,
        )
        exchanges = recorder.exchanges()
    files.write_atomic(
        folder / "exchanges.jsonl",
        "".join(json.dumps(exchange.plain()) + "\n" for exchange in exchanges),
    )
    # A failed request makes lm-eval fail later and with less to say.
    lm_eval_output.check_exchanges(exchanges, where=f"accuracy cell {cell.name}")
    finished.check("lm-eval")
    asked = Asked(cell, task, count, client.version("lm-eval"))
    return lm_eval_output.read(
        output,
        exchanges,
        asked,
        source=questions.source,
        seconds=time.monotonic() - began,
        command=command,
    )


def client_arguments(
    cell: AccuracyCell,
    task: str,
    url: str,
    model: str,
    output: Path,
    tasks: Path,
    count: int,
    deadlines: Deadlines,
) -> list[str]:
    """What follows ``lm_eval``; nothing is left to a default that matters."""
    model_arguments: dict[str, object] = {
        "base_url": url,
        "model": model,
        # Text goes to the server, whose tokenizer decides; lm-eval needs none, and
        # never cuts a prompt in silence.
        "tokenizer_backend": "None",
        "num_concurrent": cell.concurrency,
        # A failed request is a failed measurement: nothing is tried again.
        "max_retries": 1,
        "seed": cell.seed,
        "timeout": int(deadlines.request),
    }
    generation: dict[str, object] = {
        "max_gen_toks": cell.max_gen_toks,
        "temperature": cell.temperature,
        "do_sample": cell.temperature > 0,
    }
    if cell.logprobs:
        generation["logprobs"] = 0
    return [
        "run",
        *("--model", "local-completions"),
        *("--model_args", *_pairs(model_arguments)),
        *("--tasks", task),
        *("--include_path", str(tasks)),
        *("--num_fewshot", str(cell.fewshot)),
        *("--limit", str(count)),
        *("--batch_size", "1"),
        *("--gen_kwargs", *_pairs(generation)),
        *("--seed", str(cell.seed)),
        "--log_samples",
        *("--output_path", str(output)),
    ]


def local_task(original: Path, name: str, data: Path) -> str:
    """The YAML of a task that is lm-eval's own but for where the data is.

    JSON is YAML, and quotes every path that needs it.
    """
    return json.dumps(
        {
            "include": str(original),
            "task": name,
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {
                "data_files": {
                    "train": str(data / "train.jsonl"),
                    "test": str(data / "test.jsonl"),
                }
            },
        },
        indent=2,
    )


def write_task(
    client: Client, cell: AccuracyCell, task: str, questions: Questions, folder: Path
) -> Path:
    """The folder with our overlay of the cell's task, named ``task``."""
    tree = client.site_packages / "lm_eval" / "tasks" / PUBLIC
    original = tree / f"{cell.task}.yaml"
    if not original.is_file():
        raise InfrastructureError(
            f"lm-eval has no {PUBLIC}/{cell.task}.yaml", where=str(tree)
        )
    tasks = folder / "task"
    content = local_task(original, task, questions.folder)
    files.write_atomic(tasks / f"{task}.yaml", content)
    return tasks


def _environment(client: Client, endpoint: Endpoint, copies: str) -> dict[str, str]:
    return {
        **client.env,
        "OPENAI_API_KEY": endpoint.api_key,
        "HF_DATASETS_CACHE": copies,
        # The data is at hand: nothing is to be asked of the hub.
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }


def _pairs(values: dict[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in values.items()]
