# SPDX-License-Identifier: Apache-2.0
"""What one measurement says of a patch, and the verdict on the patch."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, FiniteFloat, NonNegativeInt, StringConstraints

from harness.errors import ExitCode
from harness.models.base import Model

Line = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\n]*$")]
"""One line of text for a reader."""

Probability = Annotated[float, Field(ge=0, le=1)]


class Answer(StrEnum):
    """What the evidence of one measurement allows to say."""

    BETTER_OR_EQUAL = "better_or_equal"
    WORSE = "worse"
    CANT_TELL = "cant_tell"
    INVALID = "invalid"
    """The measurement failed: says nothing of the patch."""


class Bounds(Model):
    """A two-sided interval; an end that does not exist is absent."""

    low: FiniteFloat | None
    high: FiniteFloat | None
    level: Probability


class Numbers(Model):
    """The figures behind an answer, all of them in ``unit`` unless said otherwise."""

    unit: str
    """Of ``base`` and ``patched``: "share", "tokens/s", "ms", "bytes"."""
    base: FiniteFloat | None
    patched: FiniteFloat | None
    effect_unit: str
    """Of everything below: "difference" (same unit) or "ratio" (patched / base)."""
    effect: FiniteFloat | None
    interval: Bounds | None = None
    floor: FiniteFloat | None = None
    """The effect that matters: the margin, or the ratio, where harm begins."""
    mde: FiniteFloat | None = None
    """The smallest harm that so many observations find with a power of 80%."""
    noise: FiniteFloat | None = None
    """What base against base shows by itself."""
    p: Probability | None = None
    """One-sided p of harm, adjusted for the tests made together with this one."""
    n: NonNegativeInt
    n_of: str
    """What ``n`` counts: "questions", "batches of requests", "pairs of starts"."""


class Signal(Model):
    """One measurement's word on one patch."""

    name: Line
    answer: Answer
    reason: Line
    numbers: Numbers | None = None
    gated: bool = True
    """Whether it takes part in the verdict; if not, it is shown and no more."""
    confirmed: bool = True
    """False for a "worse" that fresh server starts have yet to confirm."""


class Verdict(StrEnum):
    """The word on a patch, or on a run."""

    PASS = "pass"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    INFRASTRUCTURE = "infrastructure"

    @property
    def exit_code(self) -> ExitCode:
        return {
            Verdict.PASS: ExitCode.PASS,
            Verdict.REGRESSED: ExitCode.REGRESSED,
            Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
            Verdict.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
        }[self]


class Exercise(Model):
    """How many of a patch's changed executable lines some measured process ran."""

    changed: NonNegativeInt
    executed: NonNegativeInt


class Judgement(Model):
    """The verdict on one patch with what led to it."""

    verdict: Verdict
    reasons: Annotated[tuple[Line, ...], Field(min_length=1)]
    caught_by: tuple[str, ...] = ()
    """Gated signals that said "worse", confirmed."""
    silent: tuple[str, ...] = ()
    """Gated signals that said "better or equal"."""
    undecided: tuple[str, ...] = ()
    """Gated signals that can't tell, or whose "worse" is not confirmed."""
    failed: tuple[str, ...] = ()
    """Gated signals whose measurement failed."""
    exercise: Exercise | None = None
