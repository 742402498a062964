# SPDX-License-Identifier: Apache-2.0
"""The probe suite: from claims and trees to a report."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import files
from harness.errors import UsageError
from harness.models.base import load
from harness.models.claims import (
    Agreement,
    Change,
    Expectation,
    Figure,
    PatchClaims,
)
from harness.models.probe_report import PatchProbes, ProbeReport
from harness.models.series import Number, Series
from harness.probes.judge import judge, require_results
from harness.probes.patterns import matches
from harness.probes.plan import PatchPlan, State, jobs, label, plan_patch, states_needed
from harness.probes.workers import Progress, Results, TreeRunner, run_jobs

REPORT = "probes.json"
FACTS = "facts.json"


def read_claims(series: Series, folder: Path) -> tuple[PatchClaims, ...]:
    """The claims files beside the series, in its order.

    Raises:
        UsageError: A file is malformed, belongs to another patch, or is missing.
    """
    found = []
    for entry in series.patches:
        path = folder / f"{entry.number}.yaml"
        claims = load(path, PatchClaims)
        if claims.patch != entry.number:
            raise UsageError(f"is about {claims.patch}", where=str(path))
        _check_patterns(claims, str(path))
        found.append(claims)
    return tuple(found)


def _check_patterns(claims: PatchClaims, where: str) -> None:
    names = [
        f"{probe.name}/{scenario.name}"
        for probe in claims.probes
        for written in probe.scenarios
        for scenario in written.expand()
    ]
    said: tuple[Change | Expectation | Agreement | Figure, ...] = (
        *claims.changes,
        *claims.expectations,
        *claims.agreements,
        *claims.figures,
    )
    for pattern in (pattern for claim in said for pattern in claim.scenarios):
        if not any(matches(name, [pattern]) for name in names):
            raise UsageError(f"no scenario is named {pattern}", where=where)


def plan_suite(
    series: Series,
    claims: Sequence[PatchClaims],
    *,
    quick: bool = False,
    patches: Sequence[Number] | None = None,
    pair: tuple[State, State] | None = None,
) -> tuple[PatchPlan, ...]:
    """What has to run; ``states_needed`` of it says on which states.

    Args:
        quick: The subset that sees the grossest faults in under two minutes. Unless
            ``pair`` is given, it compares the base with the whole series: two states
            to import instead of one more than there are patches. A patch then answers
            for what any other one does in its scenarios.
        patches: Only these patches' claims.
        pair: See :func:`harness.probes.plan.plan_patch`.
    """
    if quick and pair is None:
        pair = ((), tuple(entry.number for entry in series.patches))
    return tuple(
        plan_patch(series, one, quick=quick, pair=pair)
        for one in claims
        if patches is None or one.patch in patches
    )


def run_probes(
    series: Series,
    plans: Sequence[PatchPlan],
    trees: Mapping[State, TreeRunner],
    *,
    out: Path,
    quick: bool = False,
    at_once: int | None = None,
    progress: Progress,
) -> ProbeReport:
    """Run the suite and write ``probes.json`` and ``facts.json`` into ``out``.

    Args:
        plans: From :func:`plan_suite`.
        trees: A tree that is ready to run for each state of ``states_needed(plans)``.
        out: Folder of the report; raw results and logs go to ``out/raw``.
        quick: What the report says; the plans decide what runs.
        at_once: Measured processes at a time; default one per core.

    Raises:
        InfrastructureError: A measured process could not do its work.
        UsageError: A claim's pattern or formula is wrong.
    """
    missing = [state for state in states_needed(plans) if state not in trees]
    if missing:
        raise UsageError("no tree is given", where=f"state {label(missing[0])}")
    started = time.monotonic()
    slots = at_once or os.cpu_count() or 1
    results = run_jobs(
        jobs(plans, at_once=slots),
        trees,
        series.paths(),
        out / "raw",
        at_once=slots,
        progress=progress,
    )
    patches = tuple(_judge(series, plan, results, trees) for plan in plans)
    report = ProbeReport(
        quick=quick,
        seconds=round(time.monotonic() - started, 1),
        patches=patches,
        facts=FACTS,
    )
    files.write_atomic(out / FACTS, json.dumps(_facts(results), indent=1) + "\n")
    files.write_atomic(out / REPORT, report.model_dump_json(indent=1) + "\n")
    return report


def _judge(
    series: Series,
    plan: PatchPlan,
    results: Results,
    trees: Mapping[State, TreeRunner],
) -> PatchProbes:
    wanted = {run.name for run in plan.runs}
    found = {
        name: {k: v for k, v in results.get(state, {}).items() if k in wanted}
        for name, state in plan.states.items()
    }
    require_results(found, plan)
    places = {
        name: trees[state].tree for name, state in plan.states.items() if state in trees
    }
    targets = [target.path for target in series.patch(plan.claims.patch).targets]
    return judge(plan, found, places, targets)


def _facts(results: Results) -> dict[str, object]:
    """Every fact, by state, scenario and rank."""
    return {
        label(state): {
            name: [{"outcome": rank.outcome.kind, **rank.facts} for rank in facts.ranks]
            for name, facts in sorted(scenarios.items())
        }
        for state, scenarios in sorted(results.items())
    }
