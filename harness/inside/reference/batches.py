# SPDX-License-Identifier: Apache-2.0
"""Training windows: problems one after the other, as in a prompt with examples.

The caller makes the source of chance from the seed and the step's number alone, so that
a resumed run sees what an undisturbed one would have seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor

from harness.inside.reference.problems import drill, stream

Piece = tuple[list[int], list[float]]
"""Token ids and their weights in the loss."""


@dataclass(frozen=True)
class Windows:
    """Token ids [B, L] and each token's weight in the loss [B, L]."""

    tokens: Tensor
    weights: Tensor


Kind = Literal["drills", "problems"]


@dataclass(frozen=True)
class Shape:
    """Windows of one kind that a step holds.

    Drills are bare calculations, 13 tokens each; problems are word problems with their
    answers, about 65.
    """

    kind: Kind
    count: int
    length: int
    """Tokens of each window."""
    chance_weight: float
    """What a token of a question, or before the result of a drill, weighs in the loss;
    one of an answer weighs 1. Most of a question is chance that no model can foresee.
    """


def windows(tokenizer: Tokenizer, rng: random.Random, shape: Shape) -> Windows:
    """Windows of one kind; each starts with a new piece and is cut at its length."""
    source = _drills if shape.kind == "drills" else _problems
    pieces = source(tokenizer, rng, shape.chance_weight)
    filled = [_fill(pieces, shape.length) for _ in range(shape.count)]
    return Windows(
        torch.tensor([ids for ids, _ in filled]),
        torch.tensor([weights for _, weights in filled]),
    )


def _fill(pieces: Iterator[Piece], length: int) -> Piece:
    ids: list[int] = []
    weights: list[float] = []
    while len(ids) < length:
        more, weight = next(pieces)
        ids += more
        weights += weight
    return ids[:length], weights[:length]


def _problems(
    tokenizer: Tokenizer, rng: random.Random, chance_weight: float
) -> Iterator[Piece]:
    for problem in stream(rng, held_out=False):
        yield _piece(tokenizer, problem.prompt, problem.completion, chance_weight)


def _drills(
    tokenizer: Tokenizer, rng: random.Random, chance_weight: float
) -> Iterator[Piece]:
    while True:
        asked, answered = drill(rng)
        yield _piece(tokenizer, asked, answered, chance_weight)


def _piece(
    tokenizer: Tokenizer, asked: str, answered: str, chance_weight: float
) -> Piece:
    first, second = tokenizer.encode_batch([asked, answered])
    weights = [chance_weight] * len(first.ids) + [1.0] * len(second.ids)
    return first.ids + second.ids, weights
