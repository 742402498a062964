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
        return (BEFORE, AFTER, *run.scenario.also)


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


def jobs(plans: Sequence[PatchPlan]) -> tuple[Job, ...]:
    """One job per state and environment, the longest (by time limits) first."""
    grouped: dict[tuple[State, tuple[tuple[str, str], ...]], list[Run]] = {}
    for plan in plans:
        for run in plan.runs:
            environment = tuple(sorted(run.probe.environment.items()))
            for state in dict.fromkeys(plan.states[n] for n in plan.states_of(run)):
                grouped.setdefault((state, environment), []).append(run)
    found = [Job(s, env, tuple(runs)) for (s, env), runs in grouped.items()]
    return tuple(
        sorted(found, key=lambda job: -sum(r.scenario.seconds for r in job.runs))
    )


def label(state: State) -> str:
    """A state's name in messages and folders: the patches it has."""
    return "+".join(state) if state else "base"
