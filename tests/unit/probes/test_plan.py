# SPDX-License-Identifier: Apache-2.0
"""Which scenarios run on which states, and in how many processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.models.base import load
from harness.models.claims import PatchClaims
from harness.models.series import Series
from harness.paths import Project
from harness.probes.plan import jobs, label, states_needed
from harness.probes.suite import plan_suite, read_claims


@pytest.fixture
def series(project: Project) -> Series:
    return load(project.patches / "series.yaml", Series)


def claims(patch: str, *scenarios: dict[str, Any], **more: Any) -> PatchClaims:
    probe = {"name": "p", "module": "a.b", "scenarios": scenarios or [{"name": "s"}]}
    return PatchClaims.model_validate({"patch": patch, "probes": [probe], **more})


def test_a_patch_is_compared_with_the_series_before_it(series: Series) -> None:
    (plan,) = plan_suite(series, [claims("0002")])
    assert states_needed([plan]) == (("0001",), ("0001", "0002"))


def test_a_matrix_gives_a_scenario_for_each_combination(series: Series) -> None:
    scenario = {
        "name": "tp{tensor}/{method}",
        "matrix": {"tensor": [1, 2], "method": [None, "mtp"]},
        "ranks": "=tensor * 2",
    }
    (plan,) = plan_suite(series, [claims("0001", scenario)])
    found = [(run.name, run.ranks, run.parameters["method"]) for run in plan.runs]
    assert found == [
        ("p/tp1/off", 2, None),
        ("p/tp1/mtp", 2, "mtp"),
        ("p/tp2/off", 4, None),
        ("p/tp2/mtp", 4, "mtp"),
    ]


def test_quick_compares_the_base_with_the_whole_series(series: Series) -> None:
    said = claims("0001", {"name": "a", "quick": True})
    (plan,) = plan_suite(series, [said], quick=True)
    everything = tuple(entry.number for entry in series.patches)
    assert states_needed([plan]) == ((), everything)
    assert len(everything) > 1


def test_quick_leaves_out_what_is_not_marked(series: Series) -> None:
    said = claims("0001", {"name": "a", "quick": True}, {"name": "b"})
    (plan,) = plan_suite(series, [said], quick=True)
    assert [run.name for run in plan.runs] == ["p/a"]


def test_further_states_run_only_the_scenarios_that_ask_for_them(
    series: Series,
) -> None:
    said = claims(
        "0004",
        {"name": "a", "also": ["alone"]},
        {"name": "b"},
        states={"alone": ["0004"]},
    )
    plans = plan_suite(series, [said])
    found = {
        label(job.state): [run.name for run in job.runs]
        for job in jobs(plans, at_once=1)
    }
    assert found["0004"] == ["p/a"]
    assert found["0001+0002+0003"] == ["p/a", "p/b"]


def test_states_are_shared_between_patches(series: Series) -> None:
    plans = plan_suite(series, [claims("0001"), claims("0002")])
    found = jobs(plans, at_once=2)
    assert sorted(label(job.state) for job in found) == ["0001", "0001+0002", "base"]


def test_a_large_job_is_split_and_loses_nothing(series: Series) -> None:
    scenarios = [{"name": f"s{i}", "cost": 50} for i in range(6)]
    plans = plan_suite(series, [claims("0001", *scenarios)], pair=((), ()))
    found = jobs(plans, at_once=2)
    assert len(found) > 1
    names = sorted(run.name for job in found for run in job.runs)
    assert names == [f"p/s{i}" for i in range(6)]


def test_the_claims_of_the_series_are_readable(
    project: Project, series: Series
) -> None:
    found = read_claims(series, project.patches / "claims")
    assert [one.patch for one in found] == [p.number for p in series.patches]
    assert all(plan.runs for plan in plan_suite(series, found, quick=True))


def test_a_pattern_that_names_no_scenario_is_an_error(
    project: Project, series: Series, tmp_path: Path
) -> None:
    for path in (project.patches / "claims").glob("*.yaml"):
        text = path.read_text().replace("scenarios: ['mtp-*/*']", "scenarios: [mpt-*]")
        (tmp_path / path.name).write_text(text)
    with pytest.raises(UsageError, match=r"0005\.yaml: no scenario is named mpt-\*"):
        read_claims(series, tmp_path)


def test_a_claim_has_to_say_by_how_much() -> None:
    change = {"scenarios": ["*"], "facts": ["a"], "because": "just because it is so"}
    with pytest.raises(ValueError, match="by how much"):
        claims("0001", changes=[change])


def test_two_scenarios_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="two scenarios are named p/s"):
        claims("0001", {"name": "s"}, {"name": "s"})
