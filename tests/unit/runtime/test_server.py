# SPDX-License-Identifier: Apache-2.0
"""The life of a server, on a fake one that misbehaves on purpose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import requests

from harness import processes
from harness.errors import ExitCode, InfrastructureError
from harness.files import blob_id
from harness.runtime.failure import Cause, ServerError
from harness.runtime.overlay import Overlay
from harness.runtime.server import READY_TOKENS, ServerSpec, serve

Spec = Callable[..., ServerSpec]


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def failure_of(overlay: Overlay, spec: ServerSpec, folder: Path) -> ServerError:
    with pytest.raises(ServerError) as caught, serve(overlay, spec, folder):
        pytest.fail("taken for ready")
    return caught.value


def test_a_server_is_ready_after_a_real_completion(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("slow"), tmp_path / "out") as server:
        assert server.start_seconds >= 2
        # The fake reports the same count for two engines.
        assert server.generated_tokens() == 2 * READY_TOKENS
        answer = server.complete("hello", max_tokens=3, timeout=5)
        assert answer.json()["usage"]["completion_tokens"] == 3
        server.check()
        pid = server.pid
    assert gone(pid)


def test_the_key_is_needed_and_stays_out_of_log_and_arguments(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("ok"), tmp_path / "out") as server:
        answer = requests.post(
            f"{server.base_url}/v1/completions",
            json={"model": "tiny", "prompt": "x", "max_tokens": 1},
            headers={"Authorization": "Bearer wrong"},
            timeout=5,
        )
        assert answer.status_code == 401
        assert server.api_key not in server.log.read_text()
        assert server.api_key not in " ".join(psutil.Process(server.pid).cmdline())


def test_every_boot_has_its_own_log(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    logs = []
    for _ in range(2):
        with serve(fake_overlay, fake_spec("ok"), tmp_path / "out") as server:
            logs.append(server.log)
    assert [log.name for log in logs] == ["server-1.log", "server-2.log"]
    assert all("fake server, mode ok" in log.read_text() for log in logs)


def test_health_alone_is_not_readiness(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    spec = fake_spec("hang", stall_deadline=2.0)
    error = failure_of(fake_overlay, spec, tmp_path)
    assert error.diagnosis.cause is Cause.HUNG
    assert "8 tokens did not come within 2 s" in error.line()


def test_a_start_without_progress_is_given_up_early(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    began = time.monotonic()
    error = failure_of(fake_overlay, fake_spec("quiet", stall_deadline=1.5), tmp_path)
    assert error.diagnosis.cause is Cause.STALLED
    assert time.monotonic() - began < 10


def test_a_start_with_endless_progress_meets_the_deadline(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    error = failure_of(fake_overlay, fake_spec("chatty", start_deadline=2.0), tmp_path)
    assert error.diagnosis.cause is Cause.TIMEOUT
    assert error.exit_code is ExitCode.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("mode", "cause", "text"),
    [
        ("raise", Cause.EXCEPTION, "ValueError: the weights have the wrong shape at "),
        ("memory", Cause.MEMORY, "can't allocate memory"),
        ("signal", Cause.SIGNAL, "was killed by SIGSEGV"),
        ("arguments", Cause.ARGUMENTS, "unrecognized arguments: --nonsense"),
        ("syntax", Cause.SYNTAX, "invalid syntax at /tree/vllm/models/broken.py:1"),
        ("wrapped", Cause.EXCEPTION, "KeyError: 'first cause' at "),
        ("short", Cause.REFUSED, "asked tiny for 8 tokens, got 7 from tiny"),
        ("other-model", Cause.REFUSED, "got 8 from somebody"),
        ("plugin", Cause.IMPORT, "a measuring plugin failed to load"),
    ],
)
def test_a_failed_start_names_its_cause_in_one_line(
    fake_overlay: Overlay,
    fake_spec: Spec,
    tmp_path: Path,
    mode: str,
    cause: Cause,
    text: str,
) -> None:
    error = failure_of(fake_overlay, fake_spec(mode), tmp_path / "out")
    assert error.diagnosis.cause is cause
    assert text in error.line()
    assert "\n" not in error.line()
    assert str(tmp_path / "out" / "server-1.log") in error.line()
    assert error.detail


def test_a_start_that_lost_a_port_is_repeated(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("port-once"), tmp_path) as server:
        assert server.log == tmp_path / "server-2.log"
    assert "Address already in use" in (tmp_path / "server-1.log").read_text()


def test_ports_that_are_always_taken_are_a_failed_start(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    error = failure_of(fake_overlay, fake_spec("port"), tmp_path)
    assert error.diagnosis.cause is Cause.PORT
    assert "Address already in use" in error.line()
    assert str(tmp_path / "server-3.log") in error.line()


def test_a_deaf_orphan_in_another_session_is_ended_too(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("orphan"), tmp_path / "out"):
        orphan = int((tmp_path / "orphan.pid").read_text())
        assert not gone(orphan)
    assert gone(orphan)


def test_a_server_that_dies_is_noticed(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("dies"), tmp_path) as server:
        with pytest.raises(requests.ConnectionError):
            server.complete("x", max_tokens=1, timeout=5)
        assert wait_until(lambda: gone(server.pid))
        with pytest.raises(ServerError, match="died: was killed by SIGKILL"):
            server.check()


def test_a_client_is_ended_when_its_server_dies(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("ok"), tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        client = ["sleep", "60"]
        began = time.monotonic()
        with pytest.raises(ServerError, match="SIGKILL"):
            processes.run(
                client,
                log=tmp_path / "client.log",
                timeout=60,
                heartbeat=server.watch(60),
            )
        assert time.monotonic() - began < 10


def test_no_generated_token_means_that_it_hangs(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("stuck"), tmp_path) as server:
        heartbeat = server.watch(stall=0.4, period=0.1)
        heartbeat()
        time.sleep(0.2)
        heartbeat()
        time.sleep(0.6)
        with pytest.raises(ServerError, match="no token was generated") as caught:
            heartbeat()
    assert caught.value.diagnosis.cause is Cause.HUNG


def test_a_moving_counter_is_alive(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    with serve(fake_overlay, fake_spec("ok"), tmp_path) as server:
        heartbeat = server.watch(stall=0.4, period=0.05)
        for _ in range(12):
            server.complete("x", max_tokens=1, timeout=5)
            heartbeat()
            time.sleep(0.1)


def test_processes_prove_their_files(
    fake_overlay: Overlay, fake_spec: Spec, tmp_path: Path
) -> None:
    target = fake_overlay.tree / "vllm" / "target.py"
    blobs = {"vllm/target.py": blob_id(target.read_bytes())}
    with serve(fake_overlay, fake_spec("engine"), tmp_path) as server:
        proof = server.prove(blobs, executed=["vllm/target.py"])
        assert sorted(proof.executed("vllm/target.py")) == ["EngineCore", "MainProcess"]
        assert server.pid in {p.pid for p in proof.processes}
        with pytest.raises(InfrastructureError, match=r"target\.py: process .* 0{40}"):
            server.prove({"vllm/target.py": "0" * 40})


HARNESS = """
import sys, time
sys.path.insert(0, sys.argv[1])
from conftest import *
from pathlib import Path
import os
overlay = fake_overlay.__wrapped__(Path(sys.argv[2]))
spec = fake_spec.__wrapped__(Path(sys.argv[2]))("orphan")
from harness.processes import sigterm_interrupts
from harness.runtime.server import serve
with sigterm_interrupts(), serve(overlay, spec, Path(sys.argv[2]) / "out") as server:
    print(server.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_harness_is_ended(
    tmp_path: Path, number: signal.Signals
) -> None:
    arguments = ["-c", HARNESS, str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as harness:
        assert harness.stdout is not None
        server = int(harness.stdout.readline())
        orphan = int((tmp_path / "orphan.pid").read_text())
        assert not gone(server)
        assert not gone(orphan)
        harness.send_signal(number)
        harness.wait(30)
    assert wait_until(lambda: gone(server) and gone(orphan))
