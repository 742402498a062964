# SPDX-License-Identifier: Apache-2.0
"""``harness verify`` on the real vLLM: a whole quick run, and what must end it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from harness.errors import ExitCode
from harness.git import Git
from harness.models.base import load
from harness.models.signal import Verdict
from harness.models.summary import Summary
from harness.paths import Project, default_root

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

SPECULATIVE = "vllm/config/speculative.py"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the series without claims: serving alone is tried here."""
    here = Project(default_root())
    copy = Project(tmp_path_factory.mktemp("verify") / "project")
    shutil.copytree(here.configs, copy.configs)
    shutil.copytree(here.patches, copy.patches)
    shutil.rmtree(copy.patches / "claims", ignore_errors=True)
    profile = copy.configs / "profiles" / "cpu.yaml"
    text = profile.read_text()
    assert "quick: 32" in text
    # Fewer real questions and requests: what is tried here does not need more.
    profile.write_text(text.replace("quick: 32", "quick: 16"))
    code, _, err = _run(copy, "apply", "--source", "sdist")
    assert code == ExitCode.PASS, err
    return copy


def _start(project: Project, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", "--root", str(project.root), *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _run(project: Project, *words: str) -> tuple[int, str, str]:
    process = _start(project, *words)
    out, err = process.communicate(timeout=1200)
    return process.returncode, out, err


def _verify(project: Project, *words: str) -> tuple[int, str, str]:
    return _run(project, "verify", "--quick", "--source", "sdist", *words)


def _summary(project: Project) -> Summary:
    return load(project.results / "v0.26.0" / "cpu" / "summary.json", Summary)


def _serving(project: Project) -> Iterator[psutil.Process]:
    """Processes that run a tree of this project."""
    for process in psutil.process_iter():
        try:
            path = process.environ().get("PYTHONPATH", "")
        except psutil.Error:
            continue
        if str(project.build) in path:
            yield process


def test_two_states_are_served_proved_and_compared(project: Project) -> None:
    code, _, err = _verify(project)
    summary = _summary(project)
    # Without claims nothing is known of the patches that a CPU does not serve.
    assert code == ExitCode.INCONCLUSIVE, err
    assert [boot.failure for boot in summary.boots] == [None, None, None]
    for number in ("0003", "0005"):
        patch = summary.patches[number]
        assert "VllmWorker-0" in patch.imported_by
        assert patch.verdict is Verdict.PASS, patch.judgement.reasons
        assert "accuracy mtp/exact: log-probabilities" in patch.judgement.silent
        assert "acceptance mtp/answers: absolute floor" in patch.judgement.silent
        right = next(s for s in patch.signals if s.name == "accuracy mtp/problems")
        assert right.numbers is not None
        assert (right.numbers.patched or 0) > 0.8
    assert (project.results / "v0.26.0" / "cpu" / "report.md").is_file()
    assert list(_serving(project)) == []


def test_a_patch_that_stops_the_server_is_found_out(project: Project) -> None:
    patches = {p: p.read_bytes() for p in project.patches.iterdir() if p.is_file()}
    checkout = project.checkout.resolve()
    file = checkout / SPECULATIVE
    broken = file.read_text() + '\nraise RuntimeError("broken on purpose")\n'
    try:
        file.write_text(broken)
        git = Git(checkout, {"user.name": "n", "user.email": "e@f.org"})
        git.run("commit", "-qam", "fixup! break it")
        # The series ends with a patch of its own that breaks the start.
        code, _, err = _run(project, "refresh")
        assert code == ExitCode.PASS, err
        code, out, err = _verify(project)
        # Twice, though the base serves: that is no accident of the machine.
        assert code == ExitCode.REGRESSED, out
        summary = _summary(project)
        failed = [b for b in summary.boots if b.failure]
        assert "failed to start" in (failed[0].failure or "")
        assert "broken on purpose" in (failed[0].failure or "")
        culprit = summary.patches[max(summary.patches)]
        assert "server mtp lives" in culprit.judgement.caught_by
        assert list(_serving(project)) == []
    finally:
        for stray in project.patches.glob("*.patch"):
            stray.unlink()
        for path, raw in patches.items():
            path.write_bytes(raw)


def test_a_server_killed_during_the_benchmark_is_no_verdict(project: Project) -> None:
    process = _start(project, "verify", "--quick", "--source", "sdist", "--force")
    assert process.stderr is not None
    killed = ""
    for line in process.stderr:
        if " requests" in line and not killed:
            # By descent: vLLM overwrites the environment of its engine's process.
            below = psutil.Process(process.pid).children(recursive=True)
            engine = next(p for p in below if _is_engine(p))
            os.kill(engine.pid, signal.SIGKILL)
            killed = line
    assert process.stdout is not None
    out = process.stdout.read()
    assert process.wait(timeout=300) == ExitCode.INFRASTRUCTURE, out
    assert killed
    # Both ends are served at once: it was the engine of either.
    failures = [boot.failure for boot in _summary(project).boots if boot.failure]
    assert failures
    assert not any("\n" in failure for failure in failures)
    assert not any(map(psutil.pid_exists, [engine.pid, *(p.pid for p in below)]))
    assert list(_serving(project)) == []


def _is_engine(process: psutil.Process) -> bool:
    try:
        return " ".join(process.cmdline()).startswith("VLLM::EngineCore")
    except psutil.Error:
        return False


def test_interrupted_it_leaves_no_process(project: Project) -> None:
    process = _start(project, "verify", "--quick", "--source", "sdist", "--force")
    assert process.stderr is not None
    started: list[psutil.Process] = []
    for line in process.stderr:
        if ": ready after" in line:
            started = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGINT)
            break
    process.communicate(timeout=120)
    assert process.returncode == ExitCode.INFRASTRUCTURE
    assert len(started) >= 3, "supervisor, API server and engine"
    assert not any(psutil.pid_exists(p.pid) for p in started)
    assert list(_serving(project)) == []
