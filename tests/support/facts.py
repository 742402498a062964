# SPDX-License-Identifier: Apache-2.0
"""Made-up facts of server starts, whole and plausible, for what judges them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.models.boots import BootFacts
from harness.models.facts import (
    AcceptanceFacts,
    AccuracyFacts,
    Answer,
    DraftCounts,
    Latency,
    MemoryFacts,
    Origin,
    Outcome,
    QuestionSource,
    ServingFacts,
    StepFacts,
)
from harness.models.proof import ModuleProof, ProcessProof, Proof

HASH = "ab" * 32
SOURCE = QuestionSource(
    name="made up", origin=Origin.OWN, test=400, sha256={"test.jsonl": HASH}
)


def answer(
    number: int, *, right: bool, text: str = "", logprob: float = -0.5
) -> Answer:
    return Answer(
        doc_id=number,
        doc_hash=f"doc-{number}",
        prompt_hash=f"prompt-{number}",
        target="4",
        raw=text or ("#### 4" if right else "#### 5"),
        filtered={"strict-match": "4" if right else "5"},
        scores={"strict-match": float(right)},
        outcome=Outcome.RIGHT if right else Outcome.WRONG,
        finish_reason="stop",
        prompt_tokens=10,
        completion_tokens=2,
        token_logprobs=(logprob, logprob),
    )


def accuracy(answers: Sequence[Answer]) -> AccuracyFacts:
    return AccuracyFacts(
        cell="gsm8k",
        task="gsm8k",
        task_version="3",
        task_hash="x",
        lm_eval="0.4.13",
        source=SOURCE,
        score="strict-match",
        fewshot=2,
        max_gen_toks=32,
        concurrency=4,
        seed=1234,
        answers=tuple(answers),
        seconds=1.0,
        command=("lm_eval",),
    )


def right_answers(count: int = 300) -> list[Answer]:
    return [answer(n, right=True) for n in range(count)]


def drafts(accepted: int, made: int = 40) -> DraftCounts:
    return DraftCounts(
        drafts=made,
        draft_tokens=made,
        accepted_tokens=accepted,
        accepted_by_position=(accepted,),
    )


def acceptance(accepted: Sequence[int]) -> AcceptanceFacts:
    return AcceptanceFacts(
        cell="free-text",
        source=SOURCE,
        prompts=len(accepted),
        prompts_sha256=HASH,
        output_tokens=100,
        batches=tuple(drafts(n) for n in accepted),
        seconds=1.0,
    )


def latency(value: float) -> Latency:
    return Latency(mean=value, median=value, p99=value)


def serving(speed: float = 100.0, seed: int = 1) -> ServingFacts:
    return ServingFacts(
        cell="short",
        dataset="random",
        seed=seed,
        requests=32,
        concurrency=4,
        input_tokens=320,
        output_tokens=320,
        seconds=320 / speed,
        output_tokens_per_second=speed,
        requests_per_second=speed / 10,
        ttft=latency(1000 / speed),
        tpot=latency(1000 / speed),
        itl=latency(1000 / speed),
        e2el=latency(10000 / speed),
        drafts=None,
        outputs_sha256=HASH,
        command=("vllm", "bench", "serve"),
    )


def proof(imported: Sequence[str] = ()) -> Proof:
    modules = tuple(
        ModuleProof(path=path, imported=True, file=path, blob="a" * 40)
        for path in imported
    )
    engine = ProcessProof(
        pid=2, ppid=1, role="EngineCore", title="", vllm_file="x", modules=modules
    )
    return Proof(tree="tree", asked_at="2026-01-01T00:00:00+00:00", processes=(engine,))


def boot(
    *,
    answers: Sequence[Answer] | None = None,
    accepted: Sequence[int] | None = None,
    speed: float | None = None,
    imported: Sequence[str] = (),
    lines: dict[str, tuple[int, ...]] | None = None,
) -> BootFacts:
    """The facts of one start: only the parts that are given."""
    memory = MemoryFacts(
        processes=2,
        rss_bytes=1,
        pss_bytes=1,
        kv_cache_blocks=1,
        kv_cache_block_tokens=16,
        kv_cache_log=None,
    )
    return BootFacts(
        proof=proof(imported),
        start_seconds=1.0,
        accuracy=(accuracy(answers),) if answers else (),
        acceptance=(acceptance(accepted),) if accepted else (),
        memory=memory if answers else None,
        steps=StepFacts(count=10, seconds=1.0) if answers else None,
        serving=(serving(speed),) if speed else (),
        lines=lines or {},
    )
