# SPDX-License-Identifier: Apache-2.0
"""The runtime on the real vLLM: served, proven, broken on purpose, killed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.errors import InfrastructureError
from harness.git import Git
from harness.models.pin import Upstream
from harness.paths import Project
from harness.runtime.environment import Environment
from harness.runtime.failure import Cause, ServerError
from harness.runtime.overlay import Overlay, prepare
from harness.runtime.server import READY_TOKENS, ServerSpec, serve
from harness.upstream.source import SourceRepository
from harness.upstream.worktrees import measured_worktree

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

MTP = "vllm/model_executor/models/deepseek_mtp.py"
SPECULATIVE = "vllm/config/speculative.py"


@pytest.fixture
def overlay(
    tmp_path: Path,
    pinned_source: SourceRepository,
    vllm_environment: Environment,
    upstream: Upstream,
) -> Overlay:
    """The pristine tree, ready to run."""
    tree = measured_worktree(pinned_source.path, pinned_source.commit, tmp_path)
    project = Project(tmp_path / "project")
    return prepare(project, tree, vllm_environment, upstream.version, label="base")


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        time.sleep(0.2)
    return condition()


def below(pid: int) -> dict[int, str]:
    """Every process below ``pid``, with its title."""
    found = {}
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found[process.pid] = "".join(process.cmdline())
        except psutil.NoSuchProcess:
            # Ended, or a zombie, since it was listed.
            continue
    return found


def has_engine(pid: int) -> bool:
    return any(title.startswith("VLLM::") for title in below(pid).values())


def test_the_pristine_tree_is_served_and_proven(
    overlay: Overlay, reference_spec: ServerSpec, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(overlay, reference_spec, tmp_path / "out") as server:
        proof = server.prove(upstream.targets, executed=[MTP, SPECULATIVE])
        ours = set(below(os.getpid()))
        assert {p.pid for p in proof.processes} <= ours
        assert {"MainProcess", "EngineCore"} <= {p.role for p in proof.processes}
        assert proof.executed(MTP)
        # One wrong digit in the expectation must not pass.
        wrong = {**upstream.targets, MTP: "0" * 40}
        with pytest.raises(InfrastructureError, match=rf"{MTP}: process \d+"):
            server.prove(wrong)
        before = server.generated_tokens()
        answer = server.complete("How many?", max_tokens=READY_TOKENS, timeout=120)
        assert answer.json()["usage"]["completion_tokens"] == READY_TOKENS
        assert server.generated_tokens() == before + READY_TOKENS
        server.check()
    assert not any(psutil.pid_exists(pid) for pid in ours)
    assert Git(overlay.tree).text("status", "--porcelain") == ""


def test_a_syntax_error_in_the_tree_is_named_by_file_and_line(
    overlay: Overlay, reference_spec: ServerSpec, tmp_path: Path
) -> None:
    target = overlay.tree / MTP
    lines = target.read_text().splitlines()
    lines.insert(2, "def broken(:")
    target.write_text("\n".join(lines))
    with (
        pytest.raises(ServerError) as caught,
        serve(overlay, reference_spec, tmp_path / "out"),
    ):
        pytest.fail("taken for ready")
    found = caught.value.diagnosis
    assert (found.cause, found.file, found.line) == (Cause.SYNTAX, str(target), 3)


HARNESS = """
import pickle, sys
from pathlib import Path
from harness.runtime.server import serve
overlay, spec = pickle.loads(Path(sys.argv[1]).read_bytes())
with serve(overlay, spec, Path(sys.argv[1]).parent / "out"):
    sys.exit("ready: should have been killed before")
"""


def test_a_killed_harness_leaves_no_engine(
    overlay: Overlay, reference_spec: ServerSpec, tmp_path: Path
) -> None:
    (tmp_path / "request").write_bytes(pickle.dumps((overlay, reference_spec)))
    command = [sys.executable, "-c", HARNESS, str(tmp_path / "request")]
    with subprocess.Popen(command) as harness:
        try:
            assert wait_until(lambda: has_engine(harness.pid), 900)
            started = set(below(harness.pid))
        finally:
            harness.send_signal(signal.SIGKILL)
    assert len(started) >= 3, "supervisor, API server and engine"
    assert wait_until(lambda: not any(map(psutil.pid_exists, started)), 60)
