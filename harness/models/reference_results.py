# SPDX-License-Identifier: Apache-2.0
"""What the reference model was measured to do: results/reference-model/summary.json."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from harness.models.base import Model
from harness.models.facts import DraftCounts, Rate
from harness.models.pin import Sha256


class Accuracy(Model):
    """lm-eval's score on the held-out problems."""

    questions: PositiveInt
    fewshot: NonNegativeInt
    score: str
    """The filter of the task whose score counts."""
    accuracy: Rate
    outcomes: dict[str, NonNegativeInt]
    task_hash: str
    """lm-eval's own hash of every document and prompt."""
    arguments: tuple[str, ...]
    """What lm-eval was called with; files are named, their folders left out."""


class Acceptance(Model):
    """Drafts on one kind of text."""

    cell: str
    prompts: PositiveInt
    output_tokens: PositiveInt
    counts: DraftCounts
    rates: tuple[Rate, ...]
    """Share of the drafts accepted up to each position."""


class ServerResult(Model):
    """One way to serve the model."""

    name: str
    draft_tokens: NonNegativeInt
    """Speculative tokens per step; 0: no speculation."""
    start_seconds: float
    accuracy: tuple[Accuracy, ...]
    acceptance: tuple[Acceptance, ...]


class Agreement(Model):
    """Greedy answers of two servers to the same prompts."""

    servers: tuple[str, str]
    answers: PositiveInt
    same: NonNegativeInt
    """Answers with the same text."""
    longer: NonNegativeInt
    """Of these, answers that one server reported more tokens for: several drafts were
    accepted at once, past the string that ends the answer."""
    largest_logprob_difference: float
    """Token by token, over the tokens that both servers reported for the answers with
    the same text."""


class ReferenceResults(Model):
    """All servers of one run."""

    command: str
    tree: str
    """The vLLM release that was served, without the series."""
    finished_at: str
    versions: dict[str, str]
    model: Sha256
    """Of the names and contents of the model's files."""
    servers: Annotated[tuple[ServerResult, ...], Field(min_length=1)]
    agreement: tuple[Agreement, ...]
