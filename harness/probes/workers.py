# SPDX-License-Identifier: Apache-2.0
"""Measured processes on this machine: start, follow, and end them."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.errors import InfrastructureError
from harness.models.base import validate
from harness.models.probe_facts import ScenarioFacts
from harness.probes.plan import Job, State, label
from harness.processes import Supervised, describe_status, tail

WORKER = "harness.inside.probes.worker"
IMPORT_SECONDS = 900.0
"""Limit of importing torch and vLLM, on a loaded machine with a cold disk."""

_LOOK_EVERY = 0.1
_THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Ranks of one scenario share few cores, and results must not depend on the split."""

Progress = Callable[[str], None]


class TreeRunner(Protocol):
    """A tree that is ready to run (see ``harness.runtime.overlay.Overlay``)."""

    @property
    def tree(self) -> Path: ...

    @property
    def env(self) -> dict[str, str]: ...

    def command(self, module: str, *arguments: str) -> list[str]: ...


Results = dict[State, dict[str, ScenarioFacts]]
"""Facts by state and scenario."""


@dataclass
class _Worker:
    job: Job
    folder: Path
    process: Supervised
    deadline: float
    offset: int = 0
    done: list[ScenarioFacts] = field(default_factory=list)


def run_jobs(
    jobs: Sequence[Job],
    trees: Mapping[State, TreeRunner],
    files: Sequence[str],
    folder: Path,
    *,
    at_once: int,
    progress: Progress,
) -> Results:
    """Run every job, ``at_once`` at a time.

    Args:
        files: The files whose executed lines are recorded, by path in the tree.
        folder: Job descriptions, logs and raw results go here; emptied first.

    Raises:
        InfrastructureError: A measured process ended or hung outside a scenario.
    """
    shutil.rmtree(folder, ignore_errors=True)
    waiting = list(jobs)
    total = sum(len(job.runs) for job in jobs)
    running: list[_Worker] = []
    results: Results = {}
    finished = 0
    with contextlib.ExitStack() as stack:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                place = folder / f"{len(jobs) - len(waiting)}-{label(job.state)}"
                running.append(_start(stack, job, trees[job.state], files, place))
            for worker in list(running):
                for facts in _events(worker, progress):
                    finished += 1
                    results.setdefault(worker.job.state, {})[facts.scenario] = facts
                    progress(_line(worker.job, facts, finished, total))
                if _ended(worker):
                    running.remove(worker)
            time.sleep(_LOOK_EVERY)
    return results


def _start(
    stack: contextlib.ExitStack,
    job: Job,
    tree: TreeRunner,
    files: Sequence[str],
    folder: Path,
) -> _Worker:
    folder.mkdir(parents=True)
    described = {
        "modules": job.modules,
        "files": [str(tree.tree / file) for file in files],
        "out": str(folder),
        "scenarios": [
            {
                "name": run.name,
                "module": run.probe.module,
                "ranks": run.ranks,
                "seconds": run.scenario.seconds,
                "parameters": run.parameters,
            }
            for run in job.runs
        ],
    }
    (folder / "job.json").write_text(json.dumps(described, indent=1))
    process = stack.enter_context(
        Supervised(
            tree.command(WORKER, str(folder / "job.json")),
            log=folder / "log.txt",
            env={**tree.env, **_THREADS, **dict(job.environment)},
        )
    )
    return _Worker(job, folder, process, time.monotonic() + IMPORT_SECONDS)


def _events(worker: _Worker, progress: Progress) -> Iterator[ScenarioFacts]:
    path = worker.folder / "events.jsonl"
    if not path.exists():
        return
    with path.open("rb") as stream:
        stream.seek(worker.offset)
        text = stream.read()
    whole = text.rfind(b"\n") + 1
    worker.offset += whole
    for line in text[:whole].splitlines():
        event = json.loads(line)
        if event.pop("event") == "ready":
            progress(f"{label(worker.job.state)}: imported in {event['seconds']:.0f} s")
        else:
            facts = validate(event, ScenarioFacts, where=str(path))
            worker.done.append(facts)
            yield facts
        worker.deadline = _next_deadline(worker)


def _next_deadline(worker: _Worker) -> float:
    left = worker.job.runs[len(worker.done) :]
    # The worker ends overdue ranks itself; half a minute is for it to say so.
    limit = left[0].scenario.seconds + 30 if left else 30
    return time.monotonic() + limit


def _ended(worker: _Worker) -> bool:
    status = worker.process.poll()
    missing = len(worker.job.runs) - len(worker.done)
    where = f"probes on {label(worker.job.state)}"
    log = worker.folder / "log.txt"
    if status is None:
        if time.monotonic() > worker.deadline:
            raise InfrastructureError(
                "the measured process hangs", where=where, fix=f"log in {log}"
            )
        return False
    if missing and _has_unread(worker):
        return False
    if missing or status != 0:
        said = tail(log, 1)
        raise InfrastructureError(
            f"the measured process {describe_status(status)} with {missing} scenarios "
            f"left{': ' + said[0] if said else ''}",
            where=where,
            fix=f"log in {log}",
        )
    worker.process.stop()
    return True


def _has_unread(worker: _Worker) -> bool:
    path = worker.folder / "events.jsonl"
    return path.exists() and path.stat().st_size > worker.offset


def _line(job: Job, facts: ScenarioFacts, finished: int, total: int) -> str:
    ends = {rank.outcome.kind for rank in facts.ranks} - {"ok"}
    how = f" ({', '.join(sorted(ends))})" if ends else ""
    return (
        f"[{finished}/{total}] {label(job.state)}: {facts.scenario} "
        f"{facts.seconds:.1f} s{how}"
    )
