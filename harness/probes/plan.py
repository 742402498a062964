# SPDX-License-Identifier: Apache-2.0
"""From claims to jobs: which scenarios run on which state, in which processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError
from harness.models.claims import AFTER, BEFORE, PatchClaims, Probe, Scenario
from harness.models.series import Number, Series
from harness.probes.formula import evaluate

State = tuple[Number, ...]
"""The patches of the series that are applied, in order; empty is the pinned tree."""


@dataclass(frozen=True)
class Run:
    """One scenario of one patch, ready to run on any state."""

    patch: Number
    name: str
    """``<probe>/<scenario>``."""
    probe: Probe
    scenario: Scenario
    parameters: Mapping[str, object]
    ranks: int

    @property
    def variables(self) -> dict[str, int]:
        """Numbers that the formulas of claims may use."""
        own = {
            k: v
            for k, v in self.parameters.items()
            if isinstance(v, int) and not isinstance(v, bool)
        }
        return {**self.probe.variables, **own, **self.scenario.variables}


@dataclass(frozen=True)
class PatchPlan:
    """What one patch needs: its scenarios, and the states they run on, by name."""

    claims: PatchClaims
    states: Mapping[str, State]
    runs: tuple[Run, ...]

    def states_of(self, run: Run) -> tuple[str, ...]:
        """Names of the states that ``run`` runs on."""
        scenario = run.scenario
        return tuple(dict.fromkeys((scenario.against, AFTER, *scenario.also)))


@dataclass(frozen=True)
class Job:
    """Scenarios that share one measured process: one state, one environment."""

    state: State
    environment: tuple[tuple[str, str], ...]
    runs: tuple[Run, ...]

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.probe.module for run in self.runs))


def plan_patch(
    series: Series,
    claims: PatchClaims,
    *,
    quick: bool,
    pair: tuple[State, State] | None = None,
) -> PatchPlan:
    """The scenarios of one patch and its states.

    Args:
        quick: Only the scenarios marked ``quick``.
        pair: Compare these two states instead of the series up to the patch before
            and up to this patch.

    Raises:
        UsageError: The series has no such patch.
    """
    numbers = [entry.number for entry in series.patches]
    if claims.patch not in numbers:
        raise UsageError(
            "the series has no such patch", where=f"claims of {claims.patch}"
        )
    place = numbers.index(claims.patch)
    before, after = pair or (tuple(numbers[:place]), tuple(numbers[: place + 1]))
    runs = tuple(
        _run(claims.patch, probe, scenario)
        for probe in claims.probes
        for written in probe.scenarios
        for scenario in written.expand()
        if scenario.quick or not quick
    )
    states = {BEFORE: before, AFTER: after, **claims.states}
    return PatchPlan(claims, states, runs)


def _run(patch: Number, probe: Probe, scenario: Scenario) -> Run:
    parameters = {**probe.parameters, **scenario.parameters}
    run = Run(
        patch=patch,
        name=f"{probe.name}/{scenario.name}",
        probe=probe,
        scenario=scenario,
        parameters=parameters,
        ranks=scenario.ranks if isinstance(scenario.ranks, int) else 1,
    )
    if isinstance(scenario.ranks, str):
        ranks = evaluate(scenario.ranks.removeprefix("="), run.variables)
        return Run(patch, run.name, probe, scenario, parameters, ranks)
    return run


def states_needed(plans: Iterable[PatchPlan]) -> tuple[State, ...]:
    """Every state that some scenario runs on, each once."""
    found = {
        plan.states[name]
        for plan in plans
        for run in plan.runs
        for name in plan.states_of(run)
    }
    return tuple(sorted(found, key=lambda state: (len(state), state)))


def jobs(plans: Sequence[PatchPlan], *, at_once: int) -> tuple[Job, ...]:
    """One job per state and environment, the largest first.

    A job that is larger than its share of the work is split: importing once more is
    cheaper than ``at_once - 1`` idle cores at the end.
    """
    grouped: dict[tuple[State, tuple[tuple[str, str], ...]], dict[str, Run]] = {}
    for plan in plans:
        for run in plan.runs:
            environment = tuple(sorted(run.probe.environment.items()))
            for state in dict.fromkeys(plan.states[n] for n in plan.states_of(run)):
                grouped.setdefault((state, environment), {})[run.name] = run
    whole = [Job(s, env, tuple(runs.values())) for (s, env), runs in grouped.items()]
    share = max(_SMALLEST, sum(_cost(job) for job in whole) / at_once / 2)
    found = [part for job in whole for part in _split(job, share)]
    return tuple(sorted(found, key=_cost, reverse=True))


_SMALLEST = 60.0
"""Seconds of work below which a job is not split: about four imports of vLLM."""

_RANK_SECONDS = 0.7
"""Rough cost of one rank of a scenario on one core; only the order depends on it."""


def _cost(job: Job) -> float:
    return sum(_run_cost(run) for run in job.runs)


def _run_cost(run: Run) -> float:
    return run.scenario.cost or run.ranks * _RANK_SECONDS


def _split(job: Job, share: float) -> Iterable[Job]:
    """``job`` in parts of about ``share`` seconds, its runs in order."""
    part: list[Run] = []
    for run in job.runs:
        if part and sum(map(_run_cost, part)) + _run_cost(run) > share:
            yield Job(job.state, job.environment, tuple(part))
            part = []
        part.append(run)
    yield Job(job.state, job.environment, tuple(part))


def label(state: State) -> str:
    """A state's name in messages and folders: the patches it has."""
    return "+".join(state) if state else "base"
