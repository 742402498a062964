# SPDX-License-Identifier: Apache-2.0
"""Facts before and after against a patch's claims: nothing may move unnamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from harness.errors import UsageError
from harness.models.claims import AFTER, Agreement, Change, Expectation, Ranks
from harness.models.probe_facts import Fact
from harness.models.probe_report import FactChange, Problem, ProblemKind
from harness.probes.formula import evaluate
from harness.probes.patterns import capture, has_rank, matches

MISSING = "(no such fact)"
"""Stands for the value of a fact that one side lacks."""


@dataclass(frozen=True)
class Observed:
    """One scenario on one tree: its facts by rank, and numbers for formulas."""

    scenario: str
    ranks: tuple[Mapping[str, Fact], ...]
    variables: Mapping[str, int] = field(default_factory=dict)

    def names(self, rank: int, captured: Mapping[str, int]) -> dict[str, int]:
        """What a formula about a fact of ``rank`` may use."""
        return {**self.variables, "rank": rank, **captured}


@dataclass
class Comparison:
    """What comparing showed."""

    compared: int = 0
    changes: list[FactChange] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def compare(
    pairs: Sequence[tuple[Observed, Observed]], changes: Sequence[Change]
) -> Comparison:
    """Compare each scenario's facts before and after.

    A fact that moved has to be named by a claim, and as far as claims name it, each of
    them has to hold. A fact that a claim names has to move as it says, so a claim of a
    change that does not happen is broken too.

    Raises:
        UsageError: A claim's formula is none, or its pattern names no fact at all.
    """
    result = Comparison()
    used = [0] * len(changes)
    for before, after in pairs:
        for rank, (old, new) in enumerate(zip(before.ranks, after.ranks, strict=True)):
            for name in sorted({*old, *new}):
                found = (old.get(name, MISSING), new.get(name, MISSING))
                place = _Place(after.scenario, rank, len(after.ranks), name)
                claims = []
                for index, change in enumerate(changes):
                    numbers = place.numbers(change)
                    if numbers is not None:
                        used[index] += 1
                        claims.append((change, after.names(rank, numbers)))
                _judge(result, place, found, claims)
    for change, count in zip(changes, used, strict=True):
        if count == 0 and _any_scenario(pairs, change.scenarios):
            raise UsageError(
                f"no fact is named {', '.join(change.facts)}",
                where=f"claim for {', '.join(change.scenarios)}",
                fix="mend its patterns",
            )
    return result


@dataclass(frozen=True)
class _Place:
    scenario: str
    rank: int
    count: int
    fact: str

    def numbers(self, claim: Change | Expectation | Agreement) -> dict[str, int] | None:
        """Integers captured by the claim's pattern if it speaks of this fact."""
        ranks: Ranks = "all" if isinstance(claim, Agreement) else claim.ranks
        if not has_rank(ranks, self.rank, self.count):
            return None
        if not matches(self.scenario, claim.scenarios):
            return None
        for pattern in claim.facts:
            found = capture(self.fact, pattern)
            if found is not None:
                return found
        return None

    def problem(self, kind: ProblemKind, message: str) -> Problem:
        where = f"{self.scenario}, rank {self.rank}"
        return Problem(
            kind=kind,
            scenario=self.scenario,
            rank=self.rank,
            fact=self.fact,
            message=f"{self.fact} ({where}) {message}",
        )


def _judge(
    result: Comparison,
    place: _Place,
    found: tuple[Fact, Fact],
    claims: Sequence[tuple[Change, Mapping[str, int]]],
) -> None:
    before, after = found
    result.compared += 1
    # True == 1 in Python; as facts they differ.
    moved = type(before) is not type(after) or before != after
    if moved:
        result.changes.append(
            FactChange(
                scenario=place.scenario,
                rank=place.rank,
                fact=place.fact,
                before=before,
                after=after,
                claimed=bool(claims),
            )
        )
    if moved and not claims:
        result.problems.append(
            place.problem(
                ProblemKind.UNNAMED_CHANGE,
                f"moved from {show(before)} to {show(after)}, which no claim names",
            )
        )
    for change, numbers in claims:
        wrong = _broken(change, before, after, numbers)
        if wrong:
            result.problems.append(
                place.problem(
                    ProblemKind.BROKEN_CLAIM, f"{wrong}; claimed: {change.because}"
                )
            )


def _broken(
    change: Change, before: Fact, after: Fact, numbers: Mapping[str, int]
) -> str:
    """What of the claim does not hold; empty if all does."""
    given = change.model_fields_set
    known = dict(numbers)
    for name, formula in change.where.items():
        known[name] = evaluate(formula, known)
    if "before" in given:
        expected = resolve(change.before, known)
        if before != expected:
            return f"was {show(before)} before, not {show(expected)}"
    expected = after
    how = ""
    if "after" in given:
        expected, how = resolve(change.after, known), ""
    elif change.delta is not None:
        delta = resolve(change.delta, known)
        expected, how = _plus(before, delta), f" by {show(delta)}"
    elif change.ratio is not None:
        expected, how = _times(before, change.ratio), f" by {show_ratio(change.ratio)}"
    if after != expected or type(after) is not type(expected):
        return (
            f"went from {show(before)} to {show(after)}, not to {show(expected)}{how}"
        )
    return ""


def resolve(value: Fact, numbers: Mapping[str, int]) -> Fact:
    """A claimed value, its formulas evaluated."""
    if isinstance(value, list):
        return [resolve(item, numbers) for item in value]
    if isinstance(value, str) and value.startswith("="):
        return evaluate(value[1:], numbers)
    return value


def _plus(value: Fact, delta: Fact) -> Fact:
    if isinstance(value, list):
        return [_plus(item, delta) for item in value]
    if _number(value) and _number(delta):
        return value + delta  # type: ignore[operator]
    return "(no number)"


def _times(value: Fact, ratio: str | Sequence[str]) -> Fact:
    if isinstance(value, list):
        innermost = not any(isinstance(item, list) for item in value)
        if innermost and not isinstance(ratio, str):
            if len(ratio) != len(value):
                return "(another number of elements)"
            return [_times(v, r) for v, r in zip(value, ratio, strict=True)]
        return [_times(item, ratio) for item in value]
    if not _number(value) or not isinstance(ratio, str):
        return "(no number)"
    exact = Fraction(value) * Fraction(ratio)  # type: ignore[arg-type]
    return exact.numerator if exact.denominator == 1 else f"({exact})"


def _number(value: Fact) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def expect(
    state: str, observed: Iterable[Observed], expectations: Iterable[Expectation]
) -> list[Problem]:
    """Which expectations for ``state`` do not hold.

    Raises:
        UsageError: An expectation names no fact of a scenario that was run.
    """
    problems = []
    seen = list(observed)
    for expectation in (e for e in expectations if e.state == state):
        used = 0
        for one, place, value in _facts(seen):
            numbers = place.numbers(expectation)
            if numbers is None:
                continue
            used += 1
            names = one.names(place.rank, numbers)
            wanted = resolve(expectation.value, names)
            if value != wanted or type(value) is not type(wanted):
                problems.append(
                    place.problem(
                        ProblemKind.BROKEN_CLAIM,
                        f"is {show(value)}, not {show(wanted)}{_in(state)}; "
                        f"claimed: {expectation.because}",
                    )
                )
        if not used and any(matches(o.scenario, expectation.scenarios) for o in seen):
            problems.append(
                Problem(
                    kind=ProblemKind.BROKEN_CLAIM,
                    scenario=expectation.scenarios[0],
                    fact=expectation.facts[0],
                    message=f"{expectation.facts[0]} ({expectation.scenarios[0]}) is "
                    f"not there{_in(state)}; claimed: {expectation.because}",
                )
            )
    return problems


def agree(
    observed: Iterable[tuple[Observed, Mapping[str, Fact]]],
    agreements: Iterable[Agreement],
) -> list[Problem]:
    """Facts that differ between ranks which have to agree.

    Args:
        observed: Scenarios with their parameters (for the size of a group).
    """
    problems = []
    claims = list(agreements)
    for one, parameters in observed:
        for rank, facts in enumerate(one.ranks):
            for name, value in facts.items():
                place = _Place(one.scenario, rank, len(one.ranks), name)
                for claim in claims:
                    if place.numbers(claim) is None:
                        continue
                    size = parameters.get(claim.group, len(one.ranks))
                    first = rank - rank % size if isinstance(size, int) else 0
                    other = one.ranks[first].get(name, MISSING)
                    if other != value:
                        problems.append(
                            place.problem(
                                ProblemKind.DISAGREEMENT,
                                f"is {show(value)}, on rank {first} {show(other)}: "
                                "the ranks of a group have to agree",
                            )
                        )
    return problems


def _facts(observed: Iterable[Observed]) -> Iterable[tuple[Observed, _Place, Fact]]:
    for one in observed:
        for rank, facts in enumerate(one.ranks):
            for name, value in facts.items():
                yield one, _Place(one.scenario, rank, len(one.ranks), name), value


def _any_scenario(
    pairs: Iterable[tuple[Observed, Observed]], patterns: Sequence[str]
) -> bool:
    return any(matches(after.scenario, patterns) for _, after in pairs)


def _in(state: str) -> str:
    return "" if state == AFTER else f" in the state {state}"


def show(value: Fact) -> str:
    """A fact's value in a message: short, and digests cut."""
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:12]}.."


def show_ratio(ratio: str | Sequence[str]) -> str:
    return ratio if isinstance(ratio, str) else "(" + ", ".join(ratio) + ")"
