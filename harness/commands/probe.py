# SPDX-License-Identifier: Apache-2.0
"""``harness probe``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from harness.commands._common import Context, add_source, context, emit, say
from harness.commands._measuring import add_python, cpu_environment
from harness.errors import ExitCode, UsageError
from harness.models.probe_report import PatchProbes, ProbeReport, ProbeVerdict
from harness.probes.plan import State, states_needed
from harness.probes.suite import plan_suite, read_claims, run_probes
from harness.probes.workers import TreeRunner
from harness.runtime.environment import Environment
from harness.series.checkout import apply
from harness.workflows.probing import runner, state_trees

SUMMARY = "hold each patch to its claims: exact facts of the real model code"

_PAIR: tuple[State, State] = (("before",), ("after",))
"""Names, inside one run, of two trees that the user gives."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument("--quick", action="store_true", help="the small subset")
    parser.add_argument(
        "--patch", action="append", metavar="NUMBER", help="only this patch's claims"
    )
    parser.add_argument(
        "--trees",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="compare these two checkouts instead of states of the series",
    )
    add_python(parser)
    parser.add_argument(
        "--out", type=Path, help="folder of the report (default: build/probes)"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    claims = read_claims(here.series, here.project.patches / "claims")
    known = {one.patch for one in claims}
    for number in arguments.patch or ():
        if number not in known:
            raise UsageError("the series has no such patch", where=number)
    plans = plan_suite(
        here.series,
        claims,
        quick=arguments.quick,
        patches=arguments.patch,
        pair=_PAIR if arguments.trees else None,
    )
    environment = cpu_environment(here, arguments.python)
    states = states_needed(plans)
    report = run_probes(
        here.series,
        plans,
        _trees(here, arguments, states, environment),
        out=arguments.out or here.project.build / "probes",
        quick=arguments.quick,
        progress=say,
    )
    emit(arguments, report.model_dump(mode="json"), lines(report))
    return _code(report)


def _trees(
    here: Context,
    arguments: argparse.Namespace,
    states: tuple[State, ...],
    environment: Environment,
) -> dict[State, TreeRunner]:
    trees: dict[State, TreeRunner] = {}
    if arguments.trees:
        for state, tree, name in zip(_PAIR, arguments.trees, "ab", strict=False):
            trees[state] = runner(
                here.project, here.upstream, tree.resolve(), environment, name
            )
    rest = [state for state in states if state not in trees]
    if rest:
        applied = apply(
            here.project,
            here.upstream,
            here.series,
            source=arguments.source,
            say=say,
        )
        trees.update(
            state_trees(
                here.project,
                here.upstream,
                here.series,
                applied.state,
                rest,
                environment,
                say=say,
            )
        )
    return trees


def lines(report: ProbeReport) -> Iterator[str]:
    """The report for a reader."""
    for patch in report.patches:
        yield from _patch_lines(patch)
    yield f"{report.seconds:.0f} s, every fact in {report.facts}"


def _patch_lines(patch: PatchProbes) -> Iterator[str]:
    yield (
        f"{patch.patch} {patch.verdict}: {len(patch.scenarios)} scenarios, "
        f"{patch.ranks} ranks, {patch.compared} facts compared, "
        f"{len(patch.changes)} changed ({patch.before} -> {patch.after})"
    )
    for problem in patch.problems[:20]:
        yield f"  {problem.kind}: {problem.message}"
    if len(patch.problems) > 20:
        yield f"  and {len(patch.problems) - 20} more"
    for figure in patch.figures:
        note = f" ({figure.note})" if figure.note else ""
        yield f"  published: {figure.text}: {figure.status}{note}"


def _code(report: ProbeReport) -> ExitCode:
    verdicts = {patch.verdict for patch in report.patches}
    if ProbeVerdict.REGRESSED in verdicts:
        return ExitCode.REGRESSED
    if ProbeVerdict.NOT_MEASURED in verdicts:
        return ExitCode.INFRASTRUCTURE
    return ExitCode.PASS
