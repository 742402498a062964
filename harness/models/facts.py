# SPDX-License-Identifier: Apache-2.0
"""What was measured: plain facts, already checked for validity, without a verdict.

A measurement that failed raises InfrastructureError where it is made; so there is no
"failed" state here, and no number that stands for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from harness.models.base import Model
from harness.models.pin import Sha256

Rate = Annotated[float, Field(ge=0, le=1)]


class Origin(StrEnum):
    """Where questions came from."""

    FOLDER = "local folder"
    HUB = "hub"
    OWN = "problems shipped with this repository"


class QuestionSource(Model):
    """The questions and few-shot examples that were used, by content."""

    name: str
    """Names the set as readers must know it: ``gsm8k``, or our own few problems."""
    origin: Origin
    test: NonNegativeInt
    """Number of test questions in the set."""
    sha256: dict[str, Sha256]
    """Of ``test.jsonl`` and ``train.jsonl``."""


class Outcome(StrEnum):
    """What became of one question. A request error is none: it ends the cell."""

    RIGHT = "right"
    WRONG = "wrong"
    TRUNCATED = "truncated"
    """Not right, and cut at the token limit."""
    EMPTY = "empty"
    """Not right, and nothing but white space."""
    UNEXTRACTABLE = "unextractable"
    """Not right: ended by itself, but holds no number where the task looks."""


class Answer(Model):
    """One question, as it was asked, answered and scored."""

    doc_id: NonNegativeInt
    doc_hash: str
    prompt_hash: str
    target: str
    raw: str
    """The completion's text, unfiltered."""
    filtered: dict[str, str]
    """What each of the task's filters took from it."""
    scores: dict[str, float]
    """The task's score by filter: 1 right, 0 wrong."""
    outcome: Outcome
    finish_reason: str
    prompt_tokens: PositiveInt
    completion_tokens: NonNegativeInt
    token_logprobs: tuple[float, ...] = ()
    """Natural logarithms, one per token of the completion; empty if not asked for."""

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the question: document and prompt."""
        return self.doc_hash, self.prompt_hash

    @property
    def cut(self) -> bool:
        """Whether the token limit ended it (a right answer may be cut, too)."""
        return self.finish_reason == "length"


class AccuracyFacts(Model):
    """One accuracy cell on one server."""

    cell: str
    task: str
    task_version: str
    task_hash: str
    """lm-eval's own hash of every document and prompt."""
    lm_eval: str
    """Its version."""
    source: QuestionSource
    score: str
    """The filter whose score decides."""
    fewshot: NonNegativeInt
    max_gen_toks: PositiveInt
    concurrency: PositiveInt
    seed: NonNegativeInt
    answers: Annotated[tuple[Answer, ...], Field(min_length=1)]
    seconds: PositiveFloat
    command: tuple[str, ...]

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """Answers by outcome; every outcome is listed."""
        found = Counter(answer.outcome for answer in self.answers)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return self.counts[Outcome.RIGHT] / len(self.answers)

    @model_validator(mode="after")
    def _each_question_once(self) -> AccuracyFacts:
        keys = [answer.key for answer in self.answers]
        if len(set(keys)) != len(keys):
            raise ValueError("a question was answered twice")
        return self


class Latency(Model):
    """Milliseconds."""

    mean: PositiveFloat
    median: PositiveFloat
    p99: PositiveFloat


class DraftCounts(Model):
    """Speculative decoding, counted by the server and summed over its engines."""

    drafts: PositiveInt
    draft_tokens: PositiveInt
    accepted_tokens: NonNegativeInt
    accepted_by_position: tuple[NonNegativeInt, ...]

    @property
    def length(self) -> float:
        """Tokens per step of the target: 1 + accepted / drafts."""
        return 1 + self.accepted_tokens / self.drafts

    @property
    def rates(self) -> tuple[float, ...]:
        """Share of the drafts whose token at each position was accepted."""
        return tuple(count / self.drafts for count in self.accepted_by_position)

    @property
    def trimmed(self) -> float:
        """Share of the possible draft tokens that the scheduler left out."""
        return 1 - self.draft_tokens / (self.drafts * len(self.accepted_by_position))

    @model_validator(mode="after")
    def _counts_agree(self) -> DraftCounts:
        positions = self.accepted_by_position
        if not positions:
            raise ValueError("no position was counted")
        if sum(positions) != self.accepted_tokens:
            raise ValueError(
                f"positions sum to {sum(positions)}, accepted are "
                f"{self.accepted_tokens}: the length is not 1 + sum of the rates"
            )
        if self.accepted_tokens > self.draft_tokens:
            raise ValueError("more tokens accepted than drafted")
        if self.draft_tokens > self.drafts * len(positions):
            raise ValueError("more tokens drafted than the drafts can hold")
        if any(a < b for a, b in pairwise(positions)):
            raise ValueError(f"a later position accepted more: {positions}")
        if positions[0] > self.drafts:
            raise ValueError("more drafts accepted than made")
        return self


class ServingFacts(Model):
    """One benchmark on one server start."""

    cell: str
    dataset: str
    seed: NonNegativeInt
    requests: PositiveInt
    concurrency: PositiveInt
    input_tokens: PositiveInt
    """Of all requests, as the server counted them."""
    output_tokens: PositiveInt
    seconds: PositiveFloat
    output_tokens_per_second: PositiveFloat
    requests_per_second: PositiveFloat
    ttft: Latency
    """Time to first token."""
    tpot: Latency
    """Time per output token after the first, per request."""
    itl: Latency
    """Time between chunks; a chunk holds several tokens under speculation, so it
    gets better when acceptance falls: shown, never judged."""
    e2el: Latency
    """Whole request."""
    drafts: DraftCounts | None
    """None: the server does not speculate."""
    outputs_sha256: Sha256
    """Of all generated texts in order: equal hashes are equal greedy outputs."""
    command: tuple[str, ...]


class AcceptanceFacts(Model):
    """One acceptance cell on one server."""

    cell: str
    source: QuestionSource
    prompts: PositiveInt
    prompts_sha256: Sha256
    """Of the prompts and the batch size: only equal ones are comparable."""
    output_tokens: PositiveInt
    """Tokens generated over all prompts."""
    batches: Annotated[tuple[DraftCounts, ...], Field(min_length=1)]
    """In the order of time; each batch is one cluster."""
    seconds: PositiveFloat

    @property
    def total(self) -> DraftCounts:
        """The counts of all batches together."""
        return add_drafts(self.batches)


class StepFacts(Model):
    """Steps of all requests of a server beyond their first, by the server's clock.

    vLLM counts one latency for every step that gives a request tokens, however many.
    """

    count: PositiveInt
    seconds: PositiveFloat

    @property
    def mean_ms(self) -> float:
        """Milliseconds a step."""
        return 1000 * self.seconds / self.count


class MemoryFacts(Model):
    """What a server holds after its work."""

    processes: PositiveInt
    rss_bytes: PositiveInt
    """Resident set of its processes, shared pages counted once per process."""
    pss_bytes: PositiveInt | None
    """Proportional set; None where the kernel does not tell."""
    kv_cache_blocks: PositiveInt
    """Summed over engines."""
    kv_cache_block_tokens: PositiveInt
    kv_cache_log: str | None
    """The log's own line on the memory available for the cache, if there is one."""
    model_gib: tuple[float, ...] = ()
    """Device memory that loading the model took in each worker, as the log has it: GiB,
    in ascending order. Allocated bytes, written to or not. Empty on a CPU."""


def add_drafts(parts: tuple[DraftCounts, ...]) -> DraftCounts:
    """Counts of several batches, added up (at least one; equal positions)."""
    columns = zip(*(part.accepted_by_position for part in parts), strict=True)
    return DraftCounts(
        drafts=sum(part.drafts for part in parts),
        draft_tokens=sum(part.draft_tokens for part in parts),
        accepted_tokens=sum(part.accepted_tokens for part in parts),
        accepted_by_position=tuple(sum(column) for column in columns),
    )
