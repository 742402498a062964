# SPDX-License-Identifier: Apache-2.0
"""The suite from end to end on a toy tree: real processes, no torch."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.models.claims import PatchClaims
from harness.models.probe_report import PatchProbes, ProbeVerdict, ProblemKind
from harness.models.series import Series
from harness.paths import default_root
from harness.probes.plan import State
from harness.probes.suite import FACTS, REPORT, plan_suite, run_probes

GOOD_BEFORE = "return {'bytes': 8, 'copies': 2, 'out': 'same'}"
GOOD_AFTER = "return {'bytes': 4, 'copies': 2, 'out': 'same'}"


@dataclass(frozen=True)
class ToyTree:
    """A tree with ``toy/model.py``, run by this Python."""

    tree: Path
    env: dict[str, str] = field(hash=False)

    def command(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", module, *arguments]


@pytest.fixture
def series() -> Series:
    blob = "0" * 40
    return Series.model_validate(
        {
            "base": "v1.0.0",
            "patches": [
                {
                    "number": "0001",
                    "file": "0001-x.patch",
                    "summary": "changes the toy, and says so at some length",
                    "targets": [
                        {"path": "toy/model.py", "before": blob, "after": blob}
                    ],
                    "upstream": {"state": "Pending", "note": "none"},
                    "remove_when": "never",
                }
            ],
        }
    )


def tree(folder: Path, body: str) -> ToyTree:
    (folder / "toy").mkdir(parents=True)
    (folder / "toy/model.py").write_text(f"def numbers(rank):\n    {body}\n")
    path = os.pathsep.join([str(default_root()), str(folder)])
    return ToyTree(folder, {**os.environ, "PYTHONPATH": path})


def claims(*scenarios: dict[str, Any], **more: Any) -> PatchClaims:
    return PatchClaims.model_validate(
        {
            "patch": "0001",
            "probes": [
                {
                    "name": "toy",
                    "module": "tests.unit.probes.toy_probe",
                    "scenarios": scenarios or [{"name": "one", "ranks": 2}],
                }
            ],
            "changes": [
                {
                    "scenarios": ["*"],
                    "facts": ["bytes"],
                    "ratio": "1/2",
                    "because": "half the bytes are enough",
                }
            ],
            **more,
        }
    )


def judged(
    tmp_path: Path,
    series: Series,
    after: str,
    said: PatchClaims | None = None,
    before: str = GOOD_BEFORE,
) -> PatchProbes:
    trees: dict[State, ToyTree] = {
        (): tree(tmp_path / "before", before),
        ("0001",): tree(tmp_path / "after", after),
    }
    plans = plan_suite(series, [said or claims()])
    report = run_probes(
        series, plans, trees, out=tmp_path / "out", progress=lambda line: None
    )
    return report.patches[0]


def test_a_toy_probe_that_holds(tmp_path: Path, series: Series) -> None:
    result = judged(tmp_path, series, GOOD_AFTER)
    assert (result.verdict, result.problems) == (ProbeVerdict.HOLDS, ())
    assert (result.compared, len(result.changes)) == (6, 2)
    assert [standin.name for standin in result.standins] == ["nothing"]
    assert result.executed == {"toy/model.py": (1, 2)}
    facts = json.loads((tmp_path / "out" / FACTS).read_text())
    assert facts["0001"]["toy/one"][1]["bytes"] == 4
    assert (tmp_path / "out" / REPORT).exists()


@pytest.mark.parametrize(
    ("after", "fact"),
    [
        ("return {'bytes': 8, 'copies': 2, 'out': 'same'}", "bytes"),
        ("return {'bytes': 4, 'copies': 3, 'out': 'same'}", "copies"),
        ("return {'bytes': 4, 'copies': 2, 'out': 'other'}", "out"),
        ("return {'bytes': 4, 'copies': 2}", "out"),
    ],
)
def test_a_wrong_patch_is_named_by_its_fact(
    tmp_path: Path, series: Series, after: str, fact: str
) -> None:
    result = judged(tmp_path, series, after)
    assert result.verdict is ProbeVerdict.REGRESSED
    assert {problem.fact for problem in result.problems} == {fact}
    assert all(fact in problem.message for problem in result.problems)


def test_a_patched_tree_that_raises_is_the_patchs_failure(
    tmp_path: Path, series: Series
) -> None:
    result = judged(tmp_path, series, "return None[:2]")
    assert result.verdict is ProbeVerdict.REGRESSED
    (problem,) = result.problems
    assert problem.kind is ProblemKind.CRASH
    assert "TypeError" in problem.message
    assert "toy/model.py:2" in problem.message


def test_a_base_that_raises_says_nothing_of_the_patch(
    tmp_path: Path, series: Series
) -> None:
    broken = "raise OSError('no disk')"
    result = judged(tmp_path, series, broken, before=broken)
    assert result.verdict is ProbeVerdict.NOT_MEASURED
    assert "no disk" in result.problems[0].message


@pytest.mark.parametrize(
    ("how", "said"), [("die", "killed by SIGSEGV"), ("hang", "took too long")]
)
def test_a_death_outside_the_patched_file_is_infrastructure(
    tmp_path: Path, series: Series, how: str, said: str
) -> None:
    scenario = {"name": "one", "parameters": {"how": how}, "seconds": 1}
    result = judged(tmp_path, series, GOOD_AFTER, claims(scenario))
    assert result.verdict is ProbeVerdict.NOT_MEASURED
    assert said in result.problems[0].message


def test_a_patched_tree_that_fails_elsewhere_is_infrastructure(
    tmp_path: Path, series: Series
) -> None:
    no_json = "return {'bytes': {4}, 'copies': 2, 'out': 'same'}"
    result = judged(tmp_path, series, no_json)
    assert result.verdict is ProbeVerdict.NOT_MEASURED
    assert "ended with exit 1" in result.problems[0].message


def test_a_crash_can_be_the_fact_to_see(tmp_path: Path, series: Series) -> None:
    scenario = {"name": "one", "crash_is_a_fact": True}
    said = claims(
        scenario,
        changes=[
            {
                "scenarios": ["*"],
                "facts": ["outcome.kind"],
                "before": "ok",
                "after": "raised",
                "because": "it has to be seen to fail",
            },
            {
                "scenarios": ["*"],
                "facts": ["outcome.type", "bytes", "copies", "out"],
                "after": "(no such fact)",
                "because": "nothing is left to see",
            },
        ],
    )
    result = judged(tmp_path, series, "raise ValueError('seen')", said)
    assert {problem.fact for problem in result.problems} == {"outcome.type"}


def test_a_tree_that_cannot_be_imported_is_infrastructure(
    tmp_path: Path, series: Series
) -> None:
    with pytest.raises(InfrastructureError, match="scenarios left"):
        judged(tmp_path, series, "return (", before="return (")


def test_a_state_without_a_tree_is_an_error(tmp_path: Path, series: Series) -> None:
    plans = plan_suite(series, [claims()])
    with pytest.raises(UsageError, match="no tree"):
        run_probes(series, plans, {}, out=tmp_path, progress=lambda line: None)
