# SPDX-License-Identifier: Apache-2.0
"""The wording of the word problems: what is asked, and how it is worked out.

A template names its people and things by slots, ``{name}`` ``{other}`` ``{item}``, and
its numbers by one letter each. A step says which two numbers meet in which operation,
what the result is called, and the sentence that reports it; ``{eq}`` in that sentence
becomes the calculation in gsm8k's notation, ``<<12+7=19>>19``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operator = Literal["+", "-", "*"]

NAMES = (
    "Anna", "Ben", "David", "Emma", "Frank", "Grace",
    "Jack", "Kate", "Leo", "Maria", "Noah", "Olga",
)  # fmt: skip

ITEMS = (
    "apples", "books", "cards", "coins", "eggs", "pens", "shells", "stamps",
    "tickets", "toys",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """``result = left operator right``, and the sentence that says so."""

    result: str
    left: str
    operator: Operator
    right: str
    sentence: str


@dataclass(frozen=True)
class Template:
    """One wording; its last step's result is the answer."""

    question: str
    steps: tuple[Step, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The letters of the numbers that the question gives, in order of use."""
        results = {step.result for step in self.steps}
        operands = [side for step in self.steps for side in (step.left, step.right)]
        return tuple(dict.fromkeys(n for n in operands if n not in results))

    @property
    def counts(self) -> frozenset[str]:
        """The letters that multiply another number: they are single digits."""
        return frozenset(step.left for step in self.steps if step.operator == "*")


ONE_STEP = (
    Template(
        "{name} has {a} {item}. {other} gives {name} {b} more. How many {item} does "
        "{name} have now?",
        (Step("x", "a", "+", "b", "{name} has {eq} {item} now."),),
    ),
    Template(
        "{name} has {a} {item} and gives {b} to {other}. How many {item} does {name} "
        "have left?",
        (Step("x", "a", "-", "b", "{name} has {eq} {item} left."),),
    ),
    Template(
        "There are {a} {item} in a box and {b} {item} in a bag. How many {item} are "
        "there in all?",
        (Step("x", "a", "+", "b", "There are {eq} {item} in all."),),
    ),
    Template(
        "{name} needs {a} {item} and has {b}. How many more {item} does {name} need?",
        (Step("x", "a", "-", "b", "{name} needs {eq} more {item}."),),
    ),
    Template(
        "{name} found {a} {item} on Monday and {b} on Friday. How many {item} did "
        "{name} find in all?",
        (Step("x", "a", "+", "b", "{name} found {eq} {item}."),),
    ),
    Template(
        "A shop had {a} {item} and sold {b}. How many {item} are left in the shop?",
        (Step("x", "a", "-", "b", "There are {eq} {item} left."),),
    ),
)

TWO_STEPS = (
    Template(
        "{name} has {a} {item}, buys {b} more and gives {c} to {other}. How many "
        "{item} does {name} have now?",
        (
            Step("x", "a", "+", "b", "First {name} has {eq} {item}."),
            Step("y", "x", "-", "c", "Now {name} has {eq} {item}."),
        ),
    ),
    Template(
        "{name} has {a} {item}, loses {b} and finds {c}. How many {item} does {name} "
        "have now?",
        (
            Step("x", "a", "-", "b", "First {name} has {eq} {item}."),
            Step("y", "x", "+", "c", "Now {name} has {eq} {item}."),
        ),
    ),
    Template(
        "{name} has {a} {item}, {other} has {b} and a friend has {c}. How many "
        "{item} do all three have?",
        (
            Step("x", "a", "+", "b", "{name} and {other} have {eq} {item}."),
            Step("y", "x", "+", "c", "All three have {eq} {item}."),
        ),
    ),
    Template(
        "A shop had {a} {item}. It sold {b} on Monday and {c} on Friday. How many "
        "{item} are left?",
        (
            Step("x", "a", "-", "b", "After Monday {eq} are left."),
            Step("y", "x", "-", "c", "After Friday {eq} are left."),
        ),
    ),
    Template(
        "{name} buys {a} bags with {b} {item} each and finds {c} more. How many "
        "{item} does {name} have?",
        (
            Step("x", "a", "*", "b", "The bags hold {eq} {item}."),
            Step("y", "x", "+", "c", "{name} has {eq} {item}."),
        ),
    ),
    Template(
        "{name} fills {a} boxes with {b} {item} each and sells {c}. How many {item} "
        "are left?",
        (
            Step("x", "a", "*", "b", "The boxes hold {eq} {item}."),
            Step("y", "x", "-", "c", "There are {eq} {item} left."),
        ),
    ),
    Template(
        "{name} has {a} {item}. {other} has {b} more than {name}. How many {item} do "
        "they have in all?",
        (
            Step("x", "a", "+", "b", "{other} has {eq} {item}."),
            Step("y", "a", "+", "x", "They have {eq} {item} in all."),
        ),
    ),
    Template(
        "{name} has {a} {item}. {other} has {b} fewer than {name}. How many {item} "
        "do they have in all?",
        (
            Step("x", "a", "-", "b", "{other} has {eq} {item}."),
            Step("y", "a", "+", "x", "They have {eq} {item} in all."),
        ),
    ),
    Template(
        "{name} wants {a} {item}. {name} got {b} in May and {c} in June. How many "
        "more {item} does {name} need?",
        (
            Step("x", "b", "+", "c", "{name} got {eq} {item}."),
            Step("y", "a", "-", "x", "{name} needs {eq} more {item}."),
        ),
    ),
    Template(
        "There are {a} {item} in a box. {name} adds {b} and {other} takes {c}. How "
        "many {item} are there now?",
        (
            Step("x", "a", "+", "b", "First there are {eq} {item}."),
            Step("y", "x", "-", "c", "Now there are {eq} {item}."),
        ),
    ),
    Template(
        "{name} reads {a} pages a day for {b} days and {c} pages on Friday. How many "
        "pages is that in all?",
        (
            Step("x", "b", "*", "a", "In {b} days {name} reads {eq} pages."),
            Step("y", "x", "+", "c", "In all that is {eq} pages."),
        ),
    ),
    Template(
        "{name} earns {a} dollars an hour for {b} hours and pays {c} dollars for "
        "{item}. How many dollars are left?",
        (
            Step("x", "b", "*", "a", "{name} earns {eq} dollars."),
            Step("y", "x", "-", "c", "There are {eq} dollars left."),
        ),
    ),
    Template(
        "A bus has {a} people. Then {b} get off and {c} get on. How many people are "
        "there now?",
        (
            Step("x", "a", "-", "b", "First there are {eq} people."),
            Step("y", "x", "+", "c", "Now there are {eq} people."),
        ),
    ),
    Template(
        "{name} got {a} dollars in May and {b} in June and paid {c} for {item}. How "
        "many dollars does {name} have left?",
        (
            Step("x", "a", "+", "b", "{name} got {eq} dollars."),
            Step("y", "x", "-", "c", "{name} has {eq} dollars left."),
        ),
    ),
)

TEMPLATES = ONE_STEP + TWO_STEPS
