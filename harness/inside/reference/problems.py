# SPDX-License-Identifier: Apache-2.0
"""Generated word problems in the layout of gsm8k, with a fixed training/test split.

A problem belongs to the test side when the hash of its *skeleton* says so: the text of
the question with the people and things blanked out and the numbers left in. So a test
question's numbers are never seen in training under the same wording, whoever the
people are, and adding a template moves no other problem to the other side.
"""

from __future__ import annotations

import hashlib
import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.inside.reference.templates import ITEMS, NAMES, TEMPLATES, Step, Template

SMALLEST, LARGEST = 10, 99
"""Every number in a problem and its solution has two digits, so that a calculation
always has the same layout; only the first factor of a product has one."""
COUNTS = (2, 9)
"""Range of that factor."""
TEST_SHARE = 10
"""One skeleton in this many is on the test side."""

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_BLANK = {"name": "_", "other": "_", "item": "_"}


@dataclass(frozen=True)
class Problem:
    """One question with its worked answer, as gsm8k writes them."""

    question: str
    answer: str
    skeleton: str
    """The question with people and things blanked out."""

    @property
    def held_out(self) -> bool:
        """True if the problem may be used for testing only."""
        digest = hashlib.sha256(self.skeleton.encode()).digest()
        return int.from_bytes(digest[:8], "big") % TEST_SHARE == 0

    @property
    def prompt(self) -> str:
        """What lm-eval's gsm8k task asks for this question, without its examples."""
        return f"Question: {self.question}\nAnswer:"

    @property
    def completion(self) -> str:
        """What follows the prompt when the problem is one of the examples."""
        return f" {self.answer}\n\n"


def solve(template: Template, numbers: dict[str, int]) -> dict[str, int] | None:
    """All numbers of a problem, or None if a result has not two digits."""
    values = dict(numbers)
    for step in template.steps:
        result = _OPERATIONS[step.operator](values[step.left], values[step.right])
        if not SMALLEST <= result <= LARGEST:
            return None
        values[step.result] = result
    return values


def draw(template: Template, rng: random.Random) -> dict[str, int]:
    """Numbers for a template for which every result has two digits."""
    while True:
        numbers = {
            letter: rng.randint(
                *(COUNTS if letter in template.counts else (SMALLEST, LARGEST))
            )
            for letter in template.numbers
        }
        values = solve(template, numbers)
        if values is not None:
            return values


def make(template: Template, rng: random.Random) -> Problem:
    """One problem of this template."""
    values = draw(template, rng)
    name, other = rng.sample(NAMES, 2)
    slots: dict[str, str] = {letter: str(value) for letter, value in values.items()}
    people = {"name": name, "other": other, "item": rng.choice(ITEMS)}
    lines = [
        step.sentence.format(eq=_equation(step, values), **people, **slots)
        for step in template.steps
    ]
    lines.append(f"#### {values[template.steps[-1].result]}")
    return Problem(
        question=template.question.format(**people, **slots),
        answer="\n".join(lines),
        skeleton=template.question.format(**_BLANK, **slots),
    )


def stream(rng: random.Random, *, held_out: bool) -> Iterator[Problem]:
    """Problems of one side of the split without end, all templates equally often."""
    while True:
        problem = make(rng.choice(TEMPLATES), rng)
        if problem.held_out == held_out:
            yield problem


def drill(rng: random.Random) -> tuple[str, str]:
    """A bare calculation in two halves: what is asked, and the result.

    Drawn as the steps of the problems are, but with the last digit of the second
    number leaning to the small ones. The last digit of a sum says nothing about either
    operand alone as long as all their digits are equally likely, so that nothing could
    begin to learn it; next to a 0 or a 1 it is mostly the other operand's.
    """
    largest = rng.randint(0, 9)
    while True:
        template = rng.choice(TEMPLATES)
        values = draw(template, rng)
        step = rng.choice(template.steps)
        if values[step.right] % 10 <= largest:
            asked, answered = _equation(step, values).split("=")
            return f" {asked}=", f"{answered}\n"


def distinct(count: int, seed: int, *, held_out: bool) -> list[Problem]:
    """``count`` problems with different skeletons from one side of the split."""
    seen: set[str] = set()
    problems: list[Problem] = []
    source = stream(random.Random(seed), held_out=held_out)
    while len(problems) < count:
        problem = next(source)
        if problem.skeleton not in seen:
            seen.add(problem.skeleton)
            problems.append(problem)
    return problems


def _equation(step: Step, values: dict[str, int]) -> str:
    left, right, result = values[step.left], values[step.right], values[step.result]
    sign = step.operator
    return f"<<{left}{sign}{right}={result}>>{result}"
