# SPDX-License-Identifier: Apache-2.0
"""Nothing may move unnamed, and what is named has to move as claimed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.models.claims import Agreement, Change, Expectation
from harness.models.probe_facts import Fact
from harness.models.probe_report import Problem, ProblemKind
from harness.probes.compare import Comparison, Observed, agree, compare, expect

stable = settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
WHY = "the reason for this change"

plain = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from("ab")
values = plain | st.lists(plain, max_size=2)
names = st.sampled_from(["buffer.bytes", "n1/copies", "n5/copies", "out"])
facts = st.dictionaries(names, values, min_size=1)


def change(**given: Any) -> Change:
    said = {"scenarios": ("*",), "because": WHY, **given}
    return Change.model_validate(said)


def observed(*ranks: dict[str, Fact], **variables: int) -> Observed:
    return Observed("probe/scenario", tuple(ranks), variables)


def compared(
    before: dict[str, Fact], after: dict[str, Fact], *changes: Change, **variables: int
) -> Comparison:
    pair = (observed(before, **variables), observed(after, **variables))
    return compare([pair], changes)


def kinds(problems: list[Problem]) -> list[ProblemKind]:
    return [problem.kind for problem in problems]


@stable
@given(facts=facts)
def test_equal_facts_raise_nothing(facts: dict[str, Fact]) -> None:
    result = compared(facts, dict(facts))
    assert (result.problems, result.changes) == ([], [])
    assert result.compared == len(facts)


@stable
@given(facts=facts, data=st.data())
def test_any_unnamed_change_is_caught_and_named(
    facts: dict[str, Fact], data: st.DataObject
) -> None:
    moved = data.draw(st.sampled_from(sorted(facts)))
    other = data.draw(values.filter(lambda v: repr(v) != repr(facts[moved])))
    (problem,) = compared(facts, {**facts, moved: other}).problems
    assert (problem.kind, problem.fact) == (ProblemKind.UNNAMED_CHANGE, moved)


@stable
@given(facts=facts, data=st.data())
def test_a_fact_that_comes_or_goes_is_an_unnamed_change(
    facts: dict[str, Fact], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(facts)))
    rest = {k: v for k, v in facts.items() if k != gone}
    assert kinds(compared(facts, rest).problems) == [ProblemKind.UNNAMED_CHANGE]
    assert kinds(compared(rest, facts).problems) == [ProblemKind.UNNAMED_CHANGE]


@stable
@given(facts=facts, data=st.data())
def test_any_claimed_change_that_does_not_happen_is_caught(
    facts: dict[str, Fact], data: st.DataObject
) -> None:
    named = data.draw(st.sampled_from(sorted(facts)))
    claim = change(facts=[named], after="something that no fact is")
    (problem,) = compared(facts, dict(facts), claim).problems
    assert (problem.kind, problem.fact) == (ProblemKind.BROKEN_CLAIM, named)
    assert WHY in problem.message


@stable
@given(
    before=st.integers(-9, 9),
    after=st.integers(-9, 9),
    delta=st.integers(-9, 9),
)
def test_a_delta_holds_if_and_only_if_it_is_the_difference(
    before: int, after: int, delta: int
) -> None:
    problems = compared(
        {"a": before}, {"a": after}, change(facts=["a"], delta=delta)
    ).problems
    assert bool(problems) == (after - before != delta)


def test_a_delta_may_be_a_formula_over_the_fact_and_the_scenario() -> None:
    claim = change(facts=["n{n}/bytes"], delta="=-n * width")
    before: dict[str, Fact] = {"n3/bytes": 100, "n5/bytes": 100}
    assert not compared(
        before, {"n3/bytes": 94, "n5/bytes": 90}, claim, width=2
    ).problems
    (problem,) = compared(
        before, {"n3/bytes": 94, "n5/bytes": 94}, claim, width=2
    ).problems
    assert problem.fact == "n5/bytes"
    assert "not to 90" in problem.message


def test_a_formula_may_use_the_rank_and_named_formulas() -> None:
    claim = change(
        facts=["n{n}/bytes"],
        where={"rows": "n + 2 * (rank // size)", "shard": "(rows + 1) // 2"},
        after="=shard * 10",
    )
    pair = (
        observed({"n3/bytes": 0}, {"n3/bytes": 0}, size=1),
        observed({"n3/bytes": 20}, {"n3/bytes": 30}, size=1),
    )
    assert not compare([pair], [claim]).problems


def test_a_ratio_of_a_shape_is_one_for_each_dimension() -> None:
    claim = change(facts=["shape"], ratio=("1", "1/2"))
    assert not compared({"shape": [[3, 8]]}, {"shape": [[3, 4]]}, claim).problems
    assert compared({"shape": [[3, 8]]}, {"shape": [[6, 4]]}, claim).problems
    assert compared({"shape": [[3, 8]]}, {"shape": [[3, 8]]}, claim).problems


def test_a_ratio_that_gives_a_fraction_never_holds() -> None:
    claim = change(facts=["a"], ratio="1/2")
    assert compared({"a": 7}, {"a": 3}, claim).problems
    assert not compared({"a": 8}, {"a": 4}, claim).problems


def test_a_wrong_value_before_breaks_the_claim() -> None:
    claim = change(facts=["a"], before=1, after=0)
    (problem,) = compared({"a": 2}, {"a": 0}, claim).problems
    assert "was 2 before, not 1" in problem.message


def test_true_is_not_one() -> None:
    assert compared({"a": True}, {"a": 1}).problems


def test_a_claim_for_the_last_rank_does_not_cover_the_others() -> None:
    claim = change(facts=["a"], ranks="last", after=0)
    before, after = observed({"a": 1}, {"a": 1}), observed({"a": 0}, {"a": 0})
    (problem,) = compare([(before, after)], [claim]).problems
    assert (problem.kind, problem.rank) == (ProblemKind.UNNAMED_CHANGE, 0)


def test_a_claim_that_names_no_fact_is_a_mistake_in_the_claim() -> None:
    with pytest.raises(UsageError, match=r"no fact is named buffer\.byte"):
        compared(
            {"buffer.bytes": 1},
            {"buffer.bytes": 0},
            change(facts=["buffer.byte"], after=0),
        )


def test_an_expectation_that_fails_names_fact_value_and_reason() -> None:
    expectation = Expectation(
        scenarios=("probe/*",), facts=("rows",), value="=tokens", because=WHY
    )
    (problem,) = expect("after", [observed({"rows": 0}, tokens=37)], [expectation])
    assert "rows" in problem.message
    assert "is 0, not 37" in problem.message
    assert WHY in problem.message
    assert not expect("after", [observed({"rows": 37}, tokens=37)], [expectation])


def test_an_expected_fact_that_is_missing_is_a_problem() -> None:
    expectation = Expectation(
        scenarios=("probe/*",), facts=("rows",), value=1, because=WHY
    )
    assert expect("after", [observed({"other": 1})], [expectation])
    assert not expect("before", [observed({"other": 1})], [expectation])


def test_ranks_of_a_group_have_to_agree() -> None:
    claim = Agreement(scenarios=("*",), facts=("out",), group="tensor")
    one = observed({"out": 1}, {"out": 1}, {"out": 2}, {"out": 3})
    (problem,) = agree([(one, {"tensor": 2})], [claim])
    assert (problem.kind, problem.rank) == (ProblemKind.DISAGREEMENT, 3)
    assert len(agree([(one, {})], [claim])) == 2
