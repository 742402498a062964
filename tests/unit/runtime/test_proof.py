# SPDX-License-Identifier: Apache-2.0
"""Holding processes to the files they must run."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.models.proof import ModuleProof, ProcessProof
from harness.runtime import proof
from harness.runtime.proof import Expectation

TREE = Path("/tree")
BLOB, OTHER = "a" * 40, "b" * 40


def answer(**changes: object) -> ProcessProof:
    module = {
        "path": "vllm/x.py",
        "imported": True,
        "file": "/tree/vllm/x.py",
        "blob": BLOB,
        **{k: v for k, v in changes.items() if k in ("imported", "file", "blob")},
    }
    return ProcessProof(
        pid=7,
        ppid=1,
        role="EngineCore",
        title="VLLM::EngineCore",
        vllm_file=str(changes.get("vllm_file", "/tree/vllm/__init__.py")),
        modules=(ModuleProof.model_validate(module),),
    )


def expectation(executed: Iterable[str] = ()) -> Expectation:
    return Expectation(
        tree=TREE, blobs={"vllm/x.py": BLOB}, executed=tuple(executed), pids=set
    )


def test_the_right_files_pass() -> None:
    proof.check([answer()], expectation(["vllm/x.py"]))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"blob": OTHER}, rf"vllm/x\.py: process 7 \(EngineCore\) .*{BLOB}.*{OTHER}"),
        ({"blob": None}, rf"expected blob {BLOB}, found None"),
        ({"file": "/site/vllm/x.py"}, r"expected /tree/vllm/x\.py, found /site/vllm"),
        ({"vllm_file": "/site/vllm/__init__.py"}, r"process 7 .*runs another vLLM"),
    ],
)
def test_anything_else_is_an_infrastructure_failure(
    changes: dict[str, object], text: str
) -> None:
    with pytest.raises(InfrastructureError, match=text):
        proof.check([answer(), answer(**changes)], expectation())


def test_a_target_that_nobody_imported_proves_nothing() -> None:
    with pytest.raises(InfrastructureError, match=r"vllm/x\.py: no serving process"):
        proof.check([answer(imported=False)], expectation(["vllm/x.py"]))
    proof.check([answer(imported=False)], expectation())


def test_workers_that_ray_starts_must_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "ANSWER_DEADLINE", 0.5)
    monkeypatch.setattr(proof.uuid, "uuid4", lambda: uuid.UUID(int=0))
    for pid in (7, 8, 9):
        # Ray's workers are main processes of their own.
        told = answer().model_copy(update={"pid": pid, "role": "MainProcess"})
        path = tmp_path / f"answer-00000000-{pid}.json"
        path.write_text(told.model_dump_json())

    def prove(apart: int) -> None:
        blobs = {"vllm/x.py": BLOB}
        proof.prove(tmp_path, Expectation(TREE, blobs, (), lambda: {7}, apart))

    prove(2)
    for wrong in (0, 3):
        with pytest.raises(InfrastructureError, match=r"no answer .* the engine"):
            prove(wrong)


def test_a_process_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "ANSWER_DEADLINE", 0.5)
    asked = Expectation(tree=TREE, blobs={}, executed=(), pids=lambda: {4711})
    with pytest.raises(InfrastructureError, match=r"no answer after .* from 4711"):
        proof.prove(tmp_path, asked)
