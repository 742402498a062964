# SPDX-License-Identifier: Apache-2.0
"""The probe suite as a part of verify: run, or taken from an equal earlier run."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InfrastructureError
from harness.git import Git
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.probe_report import PatchProbes, ProbeReport, ProbeVerdict
from harness.models.series import Number, Series
from harness.models.signal import Answer, Signal
from harness.models.state import CheckoutState
from harness.models.summary import ScenarioResult
from harness.paths import Project
from harness.probes.plan import PatchPlan, label, states_needed
from harness.probes.suite import FACTS, REPORT, plan_suite, read_claims, run_probes
from harness.runtime.environment import Environment
from harness.workflows.probing import state_trees
from harness.workflows.verify.program import probed_program
from harness.workflows.verify.states import tree_state

CLAIMS = "claims"
_EXAMPLES = 4
"""Changed facts that a report shows of each scenario; all are in the raw files."""


@dataclass(frozen=True)
class Suite:
    """What the suite is run with."""

    project: Project
    upstream: Upstream
    series: Series
    applied: CheckoutState
    environment: Environment
    quick: bool
    force: bool
    say: Callable[[str], None]
    compiling: frozenset[Number]
    """Patches up to which the tree compiles; only these can be probed."""


@dataclass(frozen=True)
class Probed:
    """The suite's outcome; without a report, why there is none.

    ``folder`` holds the report and every fact.
    """

    report: ProbeReport | None
    failure: str = ""
    folder: Path | None = None


def probe(suite: Suite) -> Probed:
    """Hold every patch that has claims to them.

    A patch without a claims file is left out: nothing is claimed of it.
    """
    folder = suite.project.patches / CLAIMS
    claimed = [
        entry
        for entry in suite.series.patches
        if (folder / f"{entry.number}.yaml").exists()
        and entry.number in suite.compiling
    ]
    if not claimed:
        return Probed(None)
    part = suite.series.model_copy(update={"patches": tuple(claimed)})
    claims = read_claims(part, folder)
    compiling = tuple(
        e.number for e in suite.series.patches if e.number in suite.compiling
    )
    pair = ((), compiling) if suite.quick else None
    plans = plan_suite(suite.series, claims, quick=suite.quick, pair=pair)
    home = suite.project.build / "probed" / _key(suite, plans)
    if not suite.force and (home / REPORT).exists():
        suite.say("probes: reused from an earlier run")
        return Probed(load(home / REPORT, ProbeReport), folder=home)
    shutil.rmtree(home, ignore_errors=True)
    try:
        trees = state_trees(
            suite.project,
            suite.upstream,
            suite.series,
            suite.applied,
            states_needed(plans),
            suite.environment,
            say=suite.say,
        )
        report = run_probes(
            suite.series,
            plans,
            trees,
            out=home,
            quick=suite.quick,
            progress=suite.say,
        )
    except InfrastructureError as error:
        (home / REPORT).unlink(missing_ok=True)
        return Probed(None, " ".join(error.line().split()))
    if any(p.verdict is ProbeVerdict.NOT_MEASURED for p in report.patches):
        # Worth another try next time, so not kept under the name of its key.
        failed = home.with_name(f"{home.name}-failed")
        shutil.rmtree(failed, ignore_errors=True)
        home.rename(failed)
        return Probed(report, folder=failed)
    return Probed(report, folder=home)


def signal(probes: PatchProbes) -> Signal:
    """What the probes say of one patch, as one signal."""
    name = f"probes ({len(probes.scenarios)} scenarios)"
    if probes.verdict is ProbeVerdict.HOLDS:
        claimed = sum(change.claimed for change in probes.changes)
        return Signal(
            name=name,
            answer=Answer.BETTER_OR_EQUAL,
            reason=f"all claims hold: of {probes.compared} facts on {probes.ranks} "
            f"ranks {claimed} changed as claimed, every other is equal bit for bit",
        )
    worse = probes.verdict is ProbeVerdict.REGRESSED
    first = probes.problems[0]
    more = f", and {len(probes.problems) - 1} more" if probes.problems[1:] else ""
    text = f"{first.scenario}: {first.message}{more}"
    return Signal(
        name=name,
        answer=Answer.WORSE if worse else Answer.INVALID,
        reason=" ".join(text.split()),
    )


def scenario_results(probes: PatchProbes) -> tuple[ScenarioResult, ...]:
    """Per scenario, how many facts changed, and the first few of different names."""
    found = []
    for name in probes.scenarios:
        changes = [change for change in probes.changes if change.scenario == name]
        examples = [
            f"rank {c.rank}: {c.fact} {json.dumps(c.before)} -> {json.dumps(c.after)}"
            for c in changes[:_EXAMPLES]
        ]
        found.append(
            ScenarioResult(name=name, changed=len(changes), examples=tuple(examples))
        )
    return tuple(found)


def probe_files(probed: Probed) -> dict[str, str]:
    """The report and every fact, by file name, for the results folder."""
    if probed.folder is None:
        return {}
    files = (probed.folder / name for name in (REPORT, FACTS))
    return {file.name: file.read_text("utf-8") for file in files if file.exists()}


def _key(suite: Suite, plans: Sequence[PatchPlan]) -> str:
    git = Git(suite.project.checkout.resolve())
    paths = suite.series.paths()
    base = tree_state(git, "base", suite.applied.base, (), paths)
    files = {
        p.name: p.read_text() for p in (suite.project.patches / CLAIMS).glob("*.yaml")
    }
    patches = {
        label(state): [
            target.after
            for number in state
            for target in suite.series.patch(number).targets
        ]
        for state in states_needed(plans)
    }
    parts = {
        "base": base.content,
        "patches": patches,
        "claims": sorted(files.items()),
        "environment": suite.environment.fingerprint(),
        "quick": suite.quick,
        "program": probed_program(),
    }
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
