# SPDX-License-Identifier: Apache-2.0
"""Reading what serving workers counted of their draft model's collectives.

The other half, which counts inside the workers, is harness/inside/collectives.py.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import ValidationError

from harness.errors import InfrastructureError
from harness.inside.collectives import FOLDER as FOLDER_VARIABLE
from harness.measure.settling import await_settled
from harness.models.collectives import (
    Call,
    CollectiveFacts,
    DraftForwards,
    ProcessCollectives,
    Size,
)

PLUGIN = ("harness_collectives", "harness.inside.collectives:main")
"""For the overlay's plugins; a profile that is measured so names it."""

__all__ = ["FOLDER_VARIABLE", "PLUGIN", "collect", "combine", "settled"]

_PATTERN = "collectives-*.json"


def settled(
    folder: Path,
    workers: int,
    *,
    patience: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
) -> CollectiveFacts:
    """Wait until the workers of an idle server have written all, and read it.

    Args:
        folder: What FOLDER_VARIABLE named in the server's environment.
        workers: Processes that run the draft model: tensor x data parallel.
        patience: Seconds until files that still change are an error.

    Raises:
        InfrastructureError: They go on changing, or :func:`collect` fails.
    """
    await_settled(folder, _PATTERN, patience=patience, sleep=sleep)
    return collect(folder, workers)


def collect(folder: Path, workers: int) -> CollectiveFacts:
    """The counts of all workers, added up.

    Raises:
        InfrastructureError: A worker has written nothing or nonsense, ran no draft, was
            compiled, or workers contradict each other.
    """
    paths = sorted(folder.glob(_PATTERN))
    processes = [_read(path) for path in paths]
    if len(processes) != workers:
        raise InfrastructureError(
            f"{len(processes)} processes counted the draft's collectives, {workers} "
            "workers run it",
            where=str(folder),
            fix="the plugin may have failed to load, see the server's log",
        )
    return combine(processes, where=str(folder))


def combine(processes: Iterable[ProcessCollectives], *, where: str) -> CollectiveFacts:
    """One set of facts from those of several workers of one server.

    Raises:
        InfrastructureError: See :func:`collect`.
    """
    counts: Counter[tuple[Size, tuple[Call, ...]]] = Counter()
    processes = list(processes)
    for process in processes:
        who = f"{where}: process {process.pid} ({process.role})"
        if not process.eager:
            raise InfrastructureError(
                "its model is compiled: collectives of compiled code are not seen",
                where=who,
                fix="serve with --enforce-eager",
            )
        if not process.forwards:
            raise InfrastructureError("ran no forward of the draft", where=who)
        for forward in process.forwards:
            counts[forward.size, forward.calls] += forward.count
    drafts = {process.draft for process in processes}
    stand_ins = {process.stand_ins for process in processes}
    if len(drafts) != 1 or len(stand_ins) != 1:
        raise InfrastructureError(
            f"the workers differ in draft model or stand-ins: {sorted(drafts)}",
            where=where,
        )
    twice = [size for size, seen in Counter(s for s, _ in counts).items() if seen > 1]
    if twice:
        tokens, sizes = twice[0]
        beside = f", of {list(sizes)} rows on the ranks," if sizes else ""
        raise InfrastructureError(
            f"forwards of {tokens} tokens{beside} made different collectives: they "
            "can't be compared with another tree's",
            where=where,
        )
    forwards = sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or ()))
    return CollectiveFacts(
        draft=drafts.pop(),
        processes=len(processes),
        stand_ins=stand_ins.pop(),
        forwards=tuple(
            DraftForwards(tokens=tokens, sizes=sizes, count=count, calls=calls)
            for ((tokens, sizes), calls), count in forwards
        ),
    )


def _read(path: Path) -> ProcessCollectives:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return ProcessCollectives.model_validate(data)
    except (OSError, ValueError, ValidationError) as error:
        raise InfrastructureError(
            f"unreadable counts: {str(error).splitlines()[0]}", where=str(path)
        ) from error
