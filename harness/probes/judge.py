# SPDX-License-Identifier: Apache-2.0
"""From the facts of one patch's scenarios to its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.errors import InfrastructureError
from harness.models.claims import AFTER, BEFORE, Figure, FigureStatus
from harness.models.probe_facts import (
    Fact,
    Outcome,
    RankFacts,
    ScenarioFacts,
    StandInUse,
)
from harness.models.probe_report import (
    PatchProbes,
    ProbeVerdict,
    Problem,
    ProblemKind,
)
from harness.probes.compare import Comparison, Observed, agree, compare, expect
from harness.probes.patterns import matches
from harness.probes.plan import PatchPlan, Run, label

Found = Mapping[str, Mapping[str, ScenarioFacts]]
"""Facts of a patch's scenarios, by the name of the state and of the scenario."""


def judge(
    plan: PatchPlan,
    found: Found,
    trees: Mapping[str, Path],
    targets: Sequence[str],
) -> PatchProbes:
    """Hold one patch to its claims.

    Args:
        found: Results by state name; all scenarios of the plan.
        trees: The tree of each state, by its name.
        targets: The files that this patch changes, by path in the tree.
    """
    problems: list[Problem] = []
    comparable: list[Run] = []
    for run in plan.runs:
        ends = _endings(run, found, trees, targets)
        problems.extend(ends)
        if not ends:
            comparable.append(run)
    compared = _compare(plan, comparable, found)
    problems.extend(compared.problems)
    after = [
        (_observe(run, found[AFTER][run.name]), run.parameters) for run in comparable
    ]
    problems.extend(agree(_as_facts(after), plan.claims.agreements))
    for state in plan.states:
        seen = [
            _observe(run, found[state][run.name])
            for run in comparable
            if state in plan.states_of(run)
        ]
        problems.extend(expect(state, seen, plan.claims.expectations))
    return PatchProbes(
        patch=plan.claims.patch,
        verdict=_verdict(plan, problems),
        before=label(plan.states[BEFORE]),
        after=label(plan.states[AFTER]),
        scenarios=tuple(run.name for run in plan.runs),
        ranks=sum(len(found[AFTER][run.name].ranks) for run in plan.runs),
        compared=compared.compared,
        changes=tuple(compared.changes),
        problems=tuple(problems),
        standins=_standins(found[AFTER].values()),
        figures=_figures(plan.claims.figures, comparable),
        executed=_executed(found[AFTER].values(), trees[AFTER]),
        executed_before=_executed(found[BEFORE].values(), trees[BEFORE]),
    )


def _verdict(plan: PatchPlan, problems: Sequence[Problem]) -> ProbeVerdict:
    kinds = {problem.kind for problem in problems}
    if kinds - {ProblemKind.NOT_MEASURED}:
        return ProbeVerdict.REGRESSED
    if kinds or not plan.runs:
        return ProbeVerdict.NOT_MEASURED
    return ProbeVerdict.HOLDS


def _compare(plan: PatchPlan, runs: Iterable[Run], found: Found) -> Comparison:
    pairs = []
    for run in runs:
        old = found[run.scenario.against][run.name]
        new = found[AFTER][run.name]
        pairs.append((_observe(run, old), _observe(run, new)))
    return compare(pairs, plan.claims.changes)


def _observe(run: Run, facts: ScenarioFacts) -> Observed:
    ranks = []
    for rank in facts.ranks:
        ending: dict[str, Fact] = {}
        if run.scenario.crash_is_a_fact:
            end = rank.outcome
            ending = {"outcome.kind": end.kind, "outcome.type": end.type}
        ranks.append({**rank.facts, **ending})
    return Observed(run.name, tuple(ranks), run.variables)


def _as_facts(
    observed: Iterable[tuple[Observed, Mapping[str, object]]],
) -> Iterable[tuple[Observed, Mapping[str, Fact]]]:
    for one, parameters in observed:
        sizes: dict[str, Fact] = {
            k: v for k, v in parameters.items() if isinstance(v, int)
        }
        yield one, sizes


def _endings(
    run: Run, found: Found, trees: Mapping[str, Path], targets: Sequence[str]
) -> list[Problem]:
    """Problems with how the scenario ended, if that is not itself a fact."""
    if run.scenario.crash_is_a_fact:
        # A time limit says something about the machine only.
        late = [s for s in found if _late(found[s].get(run.name))]
        return [_not_measured(run, state, "took too long") for state in late]
    problems = []
    for state in found:
        facts = found[state].get(run.name)
        if facts is None:
            continue
        first = _first_failure(facts)
        if first is None:
            continue
        rank, end = first
        reference = found[run.scenario.against][run.name]
        if state == AFTER and _first_failure(reference) is None:
            place = _in_target(end, trees[state], targets)
            if place:
                return [_crash(run, rank, end, place)]
        problems.append(_not_measured(run, state, describe(end), rank))
    return problems


def _late(facts: ScenarioFacts | None) -> bool:
    return facts is not None and any(r.outcome.kind == "timeout" for r in facts.ranks)


def _first_failure(facts: ScenarioFacts) -> tuple[int, Outcome] | None:
    """The rank that failed by itself; the others mostly fail for want of it."""
    failed = [
        (number, rank.outcome)
        for number, rank in enumerate(facts.ranks)
        if rank.outcome.kind != "ok"
    ]
    order = {"raised": 0, "died": 1, "timeout": 2}
    return min(failed, key=lambda item: order[item[1].kind], default=None)


def _in_target(end: Outcome, tree: Path, targets: Sequence[str]) -> str:
    """``file:line`` of the innermost frame in a file that the patch changes."""
    if end.kind == "timeout":
        return ""
    paths = {str((tree / target).resolve()): target for target in targets}
    for file, line, _ in reversed(end.frames):
        target = paths.get(str(Path(file).resolve()))
        if target:
            return f"{target}:{line}"
    return ""


def _crash(run: Run, rank: int, end: Outcome, place: str) -> Problem:
    return Problem(
        kind=ProblemKind.CRASH,
        scenario=run.name,
        rank=rank,
        fact="outcome",
        message=f"outcome ({run.name}, rank {rank}): {describe(end)} in {place}; "
        "the tree without the patch runs",
    )


def describe(end: Outcome) -> str:
    """How a rank ended, in words."""
    if end.kind == "raised":
        return f"{end.type}: {end.message}" if end.message else end.type
    if end.kind == "died":
        verb = "killed by" if end.signal.startswith("SIG") else "ended with"
        return f"{verb} {end.signal}"
    return "took too long"


def _not_measured(run: Run, state: str, why: str, rank: int | None = None) -> Problem:
    return Problem(
        kind=ProblemKind.NOT_MEASURED,
        scenario=run.name,
        rank=rank,
        message=f"{run.name} was not measured ({state}): {why}",
    )


def _standins(results: Iterable[ScenarioFacts]) -> tuple[StandInUse, ...]:
    found: dict[str, StandInUse] = {}
    for rank in _ranks(results):
        found.update({standin.name: standin for standin in rank.standins})
    return tuple(found.values())


def _executed(
    results: Iterable[ScenarioFacts], tree: Path
) -> dict[str, tuple[int, ...]]:
    lines: dict[str, set[int]] = {}
    root = tree.resolve()
    for rank in _ranks(results):
        for file, numbers in rank.lines.items():
            path = str(Path(file).relative_to(root))
            lines.setdefault(path, set()).update(numbers)
    return {path: tuple(sorted(numbers)) for path, numbers in sorted(lines.items())}


def _ranks(results: Iterable[ScenarioFacts]) -> Iterable[RankFacts]:
    for result in results:
        yield from result.ranks


def _figures(figures: Sequence[Figure], runs: Sequence[Run]) -> tuple[Figure, ...]:
    """The figures with the scenarios that show them; unshown if none was run."""
    shown = []
    for figure in figures:
        if figure.status is FigureStatus.SHOWN:
            names = [run.name for run in runs if matches(run.name, figure.scenarios)]
            if not names:
                note = f"{figure.note} (not in this run)".strip()
                figure = Figure(
                    text=figure.text, status=FigureStatus.NOT_MEASURED, note=note
                )
        shown.append(figure)
    return tuple(shown)


def require_results(found: Found, plan: PatchPlan) -> None:
    """Check that every scenario has facts in all its states.

    Raises:
        InfrastructureError: One is missing.
    """
    for run in plan.runs:
        for state in plan.states_of(run):
            if run.name not in found.get(state, {}):
                raise InfrastructureError(
                    f"has no facts in the state {state}", where=run.name
                )
