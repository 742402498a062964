# SPDX-License-Identifier: Apache-2.0
"""How far a model in training has come on held-out problems, without decoding.

A greedy decoder writes an answer word for word when, given the answer so far, each next
token is the most likely one: one pass over the finished text tells. An answer in other
words with the right result counts as wrong here, so lm-eval's score can be higher.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from harness.inside.reference.model import Twin
from harness.inside.reference.problems import distinct

SEED = 4711
FEWSHOT = 5


@dataclass(frozen=True)
class Score:
    exact: float
    """Share of the answers reproduced word for word."""
    accepted: tuple[float, ...]
    """Share of the drafts that hold up to each position, on the answers' tokens."""


@torch.no_grad()
def score(model: Twin, tokenizer: Tokenizer, *, problems: int, drafts: int) -> Score:
    """Score ``problems`` held-out problems behind examples; not lm-eval's ones."""
    examples = distinct(problems * FEWSHOT, SEED, held_out=False)
    exact, tried, held = 0, 0, torch.zeros(drafts)
    was_training = model.training
    model.eval()
    for index, problem in enumerate(distinct(problems, SEED, held_out=True)):
        shots = examples[index * FEWSHOT : (index + 1) * FEWSHOT]
        text = "".join(shot.prompt + shot.completion for shot in shots)
        asked = tokenizer.encode(text + problem.prompt).ids
        answered = tokenizer.encode(problem.completion).ids
        tokens = torch.tensor([asked + answered])
        logits, drafted = model(tokens, drafts)
        greedy = logits[0, len(asked) - 1 : -1].argmax(-1)
        exact += int(torch.equal(greedy, tokens[0, len(asked) :]))
        holds = _holding(drafted, tokens[0], start=len(asked) + 1)
        held += holds.sum(1)
        tried += holds.shape[1]
    model.train(was_training)
    return Score(exact / problems, tuple((held / max(1, tried)).tolist()))


def _holding(drafted: list[Tensor], tokens: Tensor, start: int) -> Tensor:
    """Whether drafts hold up to each position [drafts, N], from token ``start`` on.

    Row p of draft step s (from 0) speaks of token p+2, and belongs to the draft that
    begins s tokens earlier.
    """
    last = len(tokens) - max(0, len(drafted) - 1)
    rows = [
        draft[0, start + step - 2 : last + step - 2].argmax(-1)
        == tokens[start + step : last + step]
        for step, draft in enumerate(drafted)
    ]
    if not rows:
        return torch.ones(0, last - start)
    return torch.stack(rows).float().cumprod(0)
