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


CHANCE_DRILLS = 0.05
CHANCE_SHORT = 0.05
CHANCE_LONG = 0.1
"""What the tokens that are chance weigh in the loss, by kind of window."""

PLAIN = (
    Stage(
        steps=250,
        shapes=(
            Shape("drills", 48, 26, CHANCE_DRILLS),
            Shape("problems", 24, 80, CHANCE_SHORT),
        ),
        peak_rate=3e-3,
        final_rate=3e-3,
        warm_up=50,
        draft_steps=(0,),
        disturbed=False,
    ),
    Stage(
        steps=300,
        shapes=(
            Shape("drills", 80, 26, CHANCE_DRILLS),
            Shape("problems", 12, 80, CHANCE_SHORT),
        ),
        peak_rate=3e-3,
        final_rate=2e-3,
        warm_up=1,
        draft_steps=(0,),
        disturbed=False,
    ),
)
"""First stage, in parts: single problems, in which there is one of each thing to look
for, with calculations beside them; then mostly calculations. Calculations alone come
too early: what the heads begin with (see Twin) is gone before a problem needs it."""

FULL = (
    Stage(
        steps=700,
        shapes=(
            Shape("drills", 24, 26, CHANCE_DRILLS),
            Shape("problems", 4, 448, CHANCE_LONG),
        ),
        peak_rate=2e-3,
        final_rate=2e-5,
        warm_up=20,
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
