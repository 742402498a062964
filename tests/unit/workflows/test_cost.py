# SPDX-License-Identifier: Apache-2.0
"""The comparison with measuring by hand, on the toy series with made-up servers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InfrastructureError
from harness.models.boots import BootFacts
from harness.models.cost import Cost
from harness.readme import markers, shown
from harness.report.cost import readme_part, summary_line
from harness.workflows import cost as workflow
from harness.workflows.cost import PART, measure_cost, write_cost
from harness.workflows.verify.boots import Bench, Start
from harness.workflows.verify.run import Options, prepared, verify
from tests.support.servers import PROFILE, Servers, install
from tests.support.toy import Toy


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    return install(monkeypatch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, servers: Servers) -> SimpleNamespace:
    """Time that passes only in made-up servers: 10 s in each start."""
    made = SimpleNamespace(now=0.0, monotonic=lambda: made.now)
    monkeypatch.setattr(workflow, "time", made)

    def by_hand(bench: Bench, start: Start, runner: object) -> BootFacts:
        made.now += 10
        return servers.run(bench, start, runner)

    monkeypatch.setattr(workflow, "run_start", by_hand)
    return made


@pytest.fixture
def status(
    monkeypatch: pytest.MonkeyPatch, toy: Toy, clock: SimpleNamespace
) -> SimpleNamespace:
    """What the verify processes end with; they run in this process, for 8 s."""
    found = SimpleNamespace(code=0)

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        verify(
            toy.project,
            toy.upstream,
            toy.series,
            Options(
                PROFILE,
                source=str(toy.clone),
                force="--force" in command,
                quick="--quick" in command,
            ),
            say=lambda line: None,
        )
        clock.now += 8
        return SimpleNamespace(returncode=found.code)

    monkeypatch.setattr(workflow, "subprocess", SimpleNamespace(run=run, DEVNULL=None))
    return found


def _measure(toy: Toy, patches: list[str]) -> Cost:
    options = Options(PROFILE, source=str(toy.clone))
    executor, states = prepared(
        toy.project, toy.upstream, toy.series, options, say=lambda line: None
    )
    return measure_cost(
        executor, states, patches=patches, command="make cost", say=lambda line: None
    )


def test_every_patch_is_served_before_and_after_by_hand(
    toy: Toy, servers: Servers, status: SimpleNamespace
) -> None:
    found = _measure(toy, ["0001", "0002"])
    assert [(one.patch, one.side) for one in found.by_hand] == [
        ("0001", "before"), ("0001", "after"), ("0002", "before"), ("0002", "after"),
    ]  # fmt: skip
    assert servers.made[-8:] == [
        "base-mtp-answers+timing-by-hand-0001-before-1",
        "base-mtp-timing-by-hand-0001-before-2",
        "0001-mtp-answers+timing-by-hand-0001-after-1",
        "0001-mtp-timing-by-hand-0001-after-2",
        "0001-mtp-answers+timing-by-hand-0002-before-1",
        "0001-mtp-timing-by-hand-0002-before-2",
        "0002-mtp-answers+timing-by-hand-0002-after-1",
        "0002-mtp-timing-by-hand-0002-after-2",
    ]
    assert found.by_hand_seconds == 40
    assert found.ratio == pytest.approx(8 / 40)
    assert found.by_hand_paired_seconds == 80
    assert found.paired_ratio == pytest.approx(8 / 80)


def test_the_unchanged_run_starts_nothing(
    toy: Toy, servers: Servers, status: SimpleNamespace
) -> None:
    first, second, quick = _measure(toy, ["0002"]).runs
    assert first.starts > 0
    assert first.reused == 0
    assert (second.starts, second.reused) == (0, first.starts)
    assert quick.starts == 3


def test_what_was_not_measured_is_said(
    toy: Toy, servers: Servers, status: SimpleNamespace
) -> None:
    found = _measure(toy, ["0002"])
    assert found.by_hand_seconds == 40
    assert "(1 measured, and taken 2 times on average)" in summary_line(found)
    page = write_cost(toy.project, found).read_text()
    assert "2 patches take 40 s (1 measured" in page
    assert "by hand takes 80 s: 0.10" in page
    assert (
        Cost.model_validate_json((toy.project.results / "cost.json").read_text())
        == found
    )


def test_the_time_of_a_run_without_a_verdict_is_not_kept(
    toy: Toy, servers: Servers, status: SimpleNamespace
) -> None:
    status.code = 3
    with pytest.raises(InfrastructureError, match="ended with 3"):
        _measure(toy, ["0001"])


def test_readme_gets_the_committed_cost(
    toy: Toy, servers: Servers, status: SimpleNamespace
) -> None:
    found = _measure(toy, ["0002"])
    begin, end = markers(PART)
    readme = toy.project.root / "README.md"
    readme.write_text(f"head\n{begin}\nold\n{end}\ntail\n")
    write_cost(toy.project, found)
    assert shown(readme, PART) == readme_part(found)
    assert "| `make verify PROFILE=toy FORCE=1` |" in readme.read_text()
