# SPDX-License-Identifier: Apache-2.0
"""Asking serving processes which files they run, and holding them to it.

The other half, which answers from inside, is harness/inside/proof.py.
"""

from __future__ import annotations

import datetime
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import files
from harness.errors import InfrastructureError, UsageError
from harness.models.base import validate
from harness.models.proof import ModuleProof, ProcessProof, Proof

ANSWER_DEADLINE = 30.0
"""Seconds until every process has answered; they look once a second, but a busy
engine may hold Python's lock for a while."""

MAIN_ROLE = "MainProcess"
ENGINE_ROLE = "EngineCore"


@dataclass(frozen=True)
class Expectation:
    """What must be true of the processes.

    ``blobs`` maps each target (path in vLLM's tree) to git's id of its bytes;
    ``executed`` are the targets that some process must have imported; ``pids`` gives
    the processes that must answer, asked for anew at each look. ``apart`` is how many
    more must answer that are not below the server's process, maybe on other machines.
    """

    tree: Path
    blobs: Mapping[str, str]
    executed: Iterable[str]
    pids: Callable[[], set[int]]
    apart: int = 0


def prove(folder: Path, expected: Expectation) -> Proof:
    """Ask through ``folder`` and check the answers.

    Raises:
        InfrastructureError: A process does not answer, or runs another file; the
            message names the file, what was expected and what was found.
    """
    asked_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    number = uuid.uuid4().hex[:8]
    request = {"targets": sorted(expected.blobs)}
    files.write_atomic(folder / f"request-{number}.json", json.dumps(request))
    answers = _collect(folder, number, expected)
    check(answers, expected)
    return Proof(tree=str(expected.tree), asked_at=asked_at, processes=tuple(answers))


def check(answers: Iterable[ProcessProof], expected: Expectation) -> None:
    """Raise InfrastructureError unless every answer fits ``expected``."""
    answers = list(answers)
    package = expected.tree / "vllm" / "__init__.py"
    for process in answers:
        who = f"process {process.pid} ({process.role})"
        found = process.vllm_file
        if found is None or Path(found).resolve() != package.resolve():
            raise InfrastructureError(
                f"runs another vLLM: expected {package}, found {found}", where=who
            )
        for module in process.modules:
            _check_module(module, expected, who)
    for path in expected.executed:
        if not any(m.imported for p in answers for m in p.modules if m.path == path):
            raise InfrastructureError(
                "no serving process has imported it: nothing measured here would "
                "speak for it",
                where=path,
            )


def _check_module(module: ModuleProof, expected: Expectation, who: str) -> None:
    wanted = (expected.tree / module.path).resolve()
    if module.file is None or Path(module.file) != wanted:
        raise InfrastructureError(
            f"{who} runs another file: expected {wanted}, found {module.file}",
            where=module.path,
        )
    blob = expected.blobs[module.path]
    if module.blob != blob:
        raise InfrastructureError(
            f"{who} runs other contents: expected blob {blob}, found {module.blob}",
            where=module.path,
        )


def _collect(folder: Path, number: str, expected: Expectation) -> list[ProcessProof]:
    """All answers, once every process that must answer has done so."""
    deadline = time.monotonic() + ANSWER_DEADLINE
    while True:
        answers = [_read(p) for p in sorted(folder.glob(f"answer-{number}-*.json"))]
        have = {a.pid for a in answers}
        missing = expected.pids() - have
        roles = {a.role for a in answers}
        engine = any(r.startswith(ENGINE_ROLE) for r in roles)
        if expected.apart:
            # Ray's workers have no name that tells an engine.
            engine = len(have - expected.pids()) >= expected.apart
        if not missing and engine and MAIN_ROLE in roles:
            return answers
        if time.monotonic() > deadline:
            who = ", ".join(str(pid) for pid in sorted(missing)) or "the engine"
            raise InfrastructureError(
                f"no answer after {ANSWER_DEADLINE:.0f} s from {who}; answered: "
                f"{sorted(roles) or 'none'}",
                where="module proof",
                fix="the proof plugin may have failed to load, see the server's log",
            )
        time.sleep(0.2)


def _read(path: Path) -> ProcessProof:
    try:
        data = json.loads(path.read_text())
        return validate(data, ProcessProof, where=str(path))
    except (ValueError, UsageError) as error:
        raise InfrastructureError(
            f"unreadable answer: {error}", where=str(path)
        ) from error
