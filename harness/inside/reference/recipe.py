# SPDX-License-Identifier: Apache-2.0
"""The numbers of the training run, all in one place."""

from __future__ import annotations

from dataclasses import dataclass

from harness.inside.reference.batches import Shape


@dataclass(frozen=True)
class Stage:
    """One stretch of training with its own windows and learning-rate curve."""

    steps: int
    shapes: tuple[Shape, ...]
    """The losses of the shapes add up."""
    peak_rate: float
    final_rate: float
    warm_up: int
    draft_steps: tuple[int, ...]
    """How many tokens the MTP layer drafts in a row, taken in turn step by step."""
    disturbed: bool
    """Whether norm gains, router biases, group limit and routed scale are in."""


DRILLS = 0.05
QUESTIONS = 0.2
"""What the tokens that are chance weigh in the loss."""

PLAIN = (
    Stage(
        steps=800,
        shapes=(Shape("drills", 96, 26, DRILLS),),
        peak_rate=3e-3,
        final_rate=2e-3,
        warm_up=50,
        draft_steps=(0,),
        disturbed=False,
    ),
    Stage(
        steps=400,
        shapes=(Shape("drills", 32, 26, DRILLS), Shape("problems", 4, 224, QUESTIONS)),
        peak_rate=2e-3,
        final_rate=1e-3,
        warm_up=10,
        draft_steps=(0,),
        disturbed=False,
    ),
)
"""First stage, in parts: calculations alone, then word problems beside them."""

FULL = (
    Stage(
        steps=700,
        shapes=(Shape("problems", 2, 448, QUESTIONS),),
        peak_rate=1.5e-3,
        final_rate=2e-5,
        warm_up=30,
        draft_steps=(1, 2, 1, 3),
        disturbed=True,
    ),
)
"""Second stage: the whole architecture, and as many examples as a test prompt has."""


@dataclass(frozen=True)
class Recipe:
    """Everything a run depends on, beside the code."""

    seed: int = 20260
    stages: tuple[Stage, ...] = PLAIN + FULL
    mtp_weight: float = 0.3
    balance_weight: float = 0.01
    weight_decay: float = 0.05
    clip: float = 1.0
    tokenizer_problems: int = 4000
    gain_spread: float = 0.5
    """Norm gains are multiplied by factors from 1/(1+spread) to 1+spread."""
    bias_spread: float = 0.3
    """Router biases are drawn from -spread to +spread."""

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)
