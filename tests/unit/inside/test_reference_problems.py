# SPDX-License-Identifier: Apache-2.0
"""The generated word problems: right, repeatable, and split for good."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter

import pytest

from harness.inside.reference import problems
from harness.inside.reference.problems import (
    Problem,
    distinct,
    draw,
    drill,
    make,
    stream,
)
from harness.inside.reference.templates import TEMPLATES, Step, Template

EQUATION = re.compile(r"<<(\d+)([-+*])(\d+)=(\d+)>>(\d+)")
SCORED = re.compile(r"#### (\-?[0-9\.\,]+)")
"""lm-eval's strict-match pattern for gsm8k."""


def some(count: int = 400, *, held_out: bool = False) -> list[Problem]:
    return distinct(count, seed=7, held_out=held_out)


def value(expression: str) -> int:
    """An integer expression of two numbers, worked out without the generator."""
    node = ast.parse(expression, mode="eval").body
    assert isinstance(node, ast.BinOp)
    left, right = ast.literal_eval(node.left), ast.literal_eval(node.right)
    if isinstance(node.op, ast.Add):
        return int(left + right)
    return int(left - right if isinstance(node.op, ast.Sub) else left * right)


def test_every_calculation_is_right_and_ends_in_the_answer() -> None:
    for problem in some():
        equations = EQUATION.findall(problem.answer)
        assert len(equations) in (1, 2)
        for left, sign, right, result, repeated in equations:
            assert value(f"{left}{sign}{right}") == int(result) == int(repeated)
        scored = SCORED.search(problem.answer)
        assert scored is not None
        assert scored.group(1) == equations[-1][4]


def test_calculations_use_numbers_of_the_question_or_of_an_earlier_step() -> None:
    for problem in some():
        known = set(re.findall(r"\d+", problem.question))
        for left, _, right, result, _ in EQUATION.findall(problem.answer):
            assert {left, right} <= known
            known.add(result)


def test_no_number_is_above_the_largest() -> None:
    for problem in some():
        numbers = re.findall(r"\d+", problem.question + problem.answer)
        assert all(0 < int(number) <= problems.LARGEST for number in numbers)


def test_the_same_seed_gives_the_same_problems() -> None:
    assert some() == some()
    assert some() != distinct(400, seed=8, held_out=False)


def test_no_held_out_question_is_in_the_training_stream() -> None:
    held_out = {p.skeleton for p in some(500, held_out=True)}
    training = stream(random.Random(1), held_out=False)
    assert not held_out & {next(training).skeleton for _ in range(5_000)}


def test_other_people_and_things_do_not_move_a_problem_across_the_split() -> None:
    template = TEMPLATES[0]
    by_skeleton: dict[str, set[bool]] = {}
    rng = random.Random(3)
    for _ in range(5_000):
        problem = make(template, rng)
        by_skeleton.setdefault(problem.skeleton, set()).add(problem.held_out)
    assert all(len(sides) == 1 for sides in by_skeleton.values())


def test_one_problem_in_ten_is_held_out() -> None:
    rng = random.Random(5)
    count = sum(make(rng.choice(TEMPLATES), rng).held_out for _ in range(5_000))
    assert 0.08 < count / 5_000 < 0.12


def test_distinct_problems_differ_in_their_numbers_or_wording() -> None:
    assert len({p.skeleton for p in some()}) == 400


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.question[:40])
def test_a_template_has_numbers_enough_that_none_can_be_learnt_by_heart(
    template: Template,
) -> None:
    rng = random.Random(11)
    drawn: set[tuple[int, ...]] = set()
    for _ in range(2500):
        drawn.add(tuple(draw(template, rng).values()))
        if len(drawn) > 1000:
            return
    pytest.fail(f"2500 draws gave {len(drawn)} different ones")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.question[:40])
def test_a_template_asks_with_every_number_it_uses(template: Template) -> None:
    for letter in template.numbers:
        assert f"{{{letter}}}" in template.question


def test_numbers_are_the_given_ones_in_order_of_use() -> None:
    steps = (Step("x", "b", "+", "c", ""), Step("y", "a", "-", "x", ""))
    assert Template("", steps).numbers == ("b", "c", "a")


def test_counts_are_the_first_factors() -> None:
    steps = (Step("x", "a", "*", "b", ""), Step("y", "x", "+", "c", ""))
    assert Template("", steps).counts == {"a"}


def test_solve_refuses_a_result_without_two_digits() -> None:
    template = Template("", (Step("x", "a", "-", "b", ""),))
    assert problems.solve(template, {"a": 24, "b": 15}) is None
    assert problems.solve(template, {"a": 25, "b": 15}) == {"a": 25, "b": 15, "x": 10}
    template = Template("", (Step("x", "a", "+", "b", ""),))
    assert problems.solve(template, {"a": 50, "b": 50}) is None


def test_a_drill_is_a_right_calculation() -> None:
    rng = random.Random(13)
    for _ in range(400):
        asked, answered = drill(rng)
        (equation,) = EQUATION.findall(asked + answered)
        assert value("".join(equation[:3])) == int(equation[3]) == int(equation[4])
        assert asked.endswith("=")


def test_drills_lean_to_small_last_digits_and_leave_none_out() -> None:
    rng = random.Random(17)
    drawn = [EQUATION.findall("".join(drill(rng)))[0] for _ in range(4_000)]
    seen = Counter(right[-1] for _, sign, right, *_ in drawn if sign != "*")
    assert set(seen) == set("0123456789")
    assert seen["0"] + seen["1"] > 4 * (seen["8"] + seen["9"])


def test_no_problems_are_none() -> None:
    assert distinct(0, seed=7, held_out=False) == []


def test_prompt_and_completion_are_laid_out_as_the_task_does() -> None:
    problem = Problem("Q?", "A.\n#### 4", "Q?")
    assert problem.prompt == "Question: Q?\nAnswer:"
    assert problem.completion == " A.\n#### 4\n\n"
