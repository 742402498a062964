# SPDX-License-Identifier: Apache-2.0
"""The life of one vLLM server: started, really answering, watched, gone.

``/health`` answers while the engine hangs or is dead, so readiness is a completion
that returned its tokens, and liveness is a counter of generated tokens that moves.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests
from prometheus_client.parser import text_string_to_metric_families

from harness import files
from harness.inside.ports import free_port
from harness.inside.proof import FOLDER as PROOF_FOLDER
from harness.models.proof import Proof
from harness.processes import STOP_GRACE, Supervised, tail
from harness.runtime import failure, model_infos, proof
from harness.runtime.failure import Cause, Diagnosis, ServerError
from harness.runtime.overlay import Overlay

HOST = "127.0.0.1"
MODULE = "vllm.entrypoints.cli.main"

READY_TOKENS = 8
"""Tokens of the completion that makes a server ready: more than a step can yield
with the usual numbers of speculative tokens, so that the engine has to go round."""

_LOOK = 0.5
"""Seconds between looks at a starting server."""

_REPORT_PATIENCE = 5.0
"""Seconds from a process's end until its supervisor must have told us."""

_STARTS = 3
"""Of a server whose ports are taken from it."""

_TOKEN_COUNTER = "vllm:generation_tokens"
_ENGINE_TITLES = ("VLLM::EngineCore", "VLLM::Worker")


@dataclass(frozen=True)
class ServerSpec:
    """What to serve, and how long to wait.

    ``arguments`` and ``env`` come on top of the model, its name, host and port, and
    of the overlay's environment. ``prompt`` is what readiness is tried with: text, or
    token ids. Deadlines are seconds: ``start_deadline`` for the whole start,
    ``stall_deadline`` without a new line in the log, or for the first completion,
    ``stop_grace`` from SIGTERM to SIGKILL. ``apart`` counts workers that are not below
    the server's process, because Ray starts them.
    """

    model: Path
    served_name: str
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    start_deadline: float = 900.0
    stall_deadline: float = 300.0
    stop_grace: float = STOP_GRACE
    prompt: str | tuple[int, ...] = "1 2 3 4"
    apart: int = 0


class Server:
    """A server that is ready; made by :func:`serve`.

    ``base_url`` has no ``/v1``; ``start_seconds`` is the time to readiness.
    """

    def __init__(
        self,
        overlay: Overlay,
        spec: ServerSpec,
        process: Supervised,
        port: int,
        api_key: str,
        proof_folder: Path,
    ) -> None:
        self.overlay = overlay
        self.spec = spec
        self.model = spec.served_name
        self.port = port
        self.api_key = api_key
        self.base_url = f"http://{HOST}:{port}"
        self.log = process.log
        self.start_seconds = 0.0
        self._process = process
        self._proof_folder = proof_folder

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def created(self) -> float:
        """Start time of the process, seconds since the epoch."""
        return self._process.created

    @property
    def command(self) -> tuple[str, ...]:
        return self._process.command

    def log_tail(self, lines: int = 200) -> list[str]:
        """The end of this boot's log."""
        return tail(self.log, lines)

    def check(self) -> None:
        """Raise ServerError unless the server is still the process we started."""
        same = self._process.same_process()
        # The report of its end may come a moment after the end.
        status = self._process.wait(0 if same else _REPORT_PATIENCE)
        if status is not None:
            diagnosis = failure.diagnose(status, failure.read_log(self.log))
        elif not same:
            text = f"pid {self.pid} is another process now"
            diagnosis = Diagnosis(Cause.CHANGED, text)
        else:
            return
        raise ServerError(diagnosis, what="died", log=self.log)

    def check_after_failure(self) -> None:
        """As :meth:`check`, for when a client failed: a dying server takes a moment,
        and its death is the better reason."""
        self._process.wait(_REPORT_PATIENCE)
        self.check()

    def metrics(self) -> str:
        """The server's Prometheus text.

        Raises:
            ServerError: It does not answer.
        """
        try:
            answer = requests.get(f"{self.base_url}/metrics", timeout=30)
            answer.raise_for_status()
        except requests.RequestException as error:
            self.check()
            diagnosis = Diagnosis(Cause.HUNG, f"/metrics does not answer: {error}")
            raise ServerError(diagnosis, what="failed", log=self.log) from error
        return answer.text

    def generated_tokens(self) -> float:
        """Tokens generated since the start, over all engines."""
        families = text_string_to_metric_families(self.metrics())
        samples = [s for f in families if f.name == _TOKEN_COUNTER for s in f.samples]
        return sum(s.value for s in samples if s.name == f"{_TOKEN_COUNTER}_total")

    def watch(self, stall: float, period: float = 10.0) -> Callable[[], None]:
        """A heartbeat for :func:`harness.processes.run` while a client is at work.

        It raises ServerError when the server died, or generated no token for
        ``stall`` seconds; the counter is read every ``period`` seconds.
        """
        seen = -1.0
        moved = looked = time.monotonic()

        def heartbeat() -> None:
            nonlocal seen, moved, looked
            self.check()
            now = time.monotonic()
            if now - looked < period:
                return
            looked = now
            count = self.generated_tokens()
            if count != seen:
                seen, moved = count, now
            elif now - moved > stall:
                diagnosis = Diagnosis(
                    Cause.HUNG, f"no token was generated for {now - moved:.0f} s"
                )
                raise ServerError(diagnosis, what="hangs", log=self.log)

        return heartbeat

    def prove(self, blobs: Mapping[str, str], *, executed: Sequence[str] = ()) -> Proof:
        """Which files the server's processes run, held to ``blobs``.

        Args:
            blobs: Each target (path in vLLM's tree) with the blob id it must have.
            executed: Targets that at least one process must have imported.

        Raises:
            InfrastructureError: A process runs something else, or does not answer.
        """
        self.check()
        expected = proof.Expectation(
            tree=self.overlay.tree,
            blobs=dict(blobs),
            executed=tuple(executed),
            pids=self._serving_pids,
            apart=self.spec.apart,
        )
        return proof.prove(self._proof_folder, expected)

    def complete(
        self, prompt: str | Sequence[int], *, max_tokens: int, timeout: float
    ) -> requests.Response:
        """One greedy completion that does not stop before ``max_tokens``."""
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        return requests.post(
            f"{self.base_url}/v1/completions",
            json=body,
            headers={"Authorization": f"Bearer {self.api_key}"},
            timeout=timeout,
        )

    def processes(self) -> list[psutil.Process]:
        """Every process of this server that is alive now."""
        return self._process.members()

    def _serving_pids(self) -> set[int]:
        engines = {p.pid for p in self._process.members() if _is_engine(p)}
        return {self.pid} | engines

    def _await_ready(self) -> None:
        """Return once a completion has come back whole."""
        began = time.monotonic()
        deadline = began + self.spec.start_deadline
        grown, size = began, 0
        while True:
            self._check_start()
            now = time.monotonic()
            if self.log.stat().st_size != size:
                grown, size = now, self.log.stat().st_size
            if now > deadline:
                text = f"not ready after {self.spec.start_deadline:.0f} s"
                self._fail_start(Cause.TIMEOUT, text)
            if now - grown > self.spec.stall_deadline:
                text = f"no line in the log for {self.spec.stall_deadline:.0f} s"
                self._fail_start(Cause.STALLED, text)
            if self._answers(min(self.spec.stall_deadline, deadline - now)):
                break
            self._process.wait(_LOOK)
        self._check_listener()
        self.start_seconds = time.monotonic() - began

    def _answers(self, timeout: float) -> bool:
        """Whether a completion returns; False while nothing listens."""
        try:
            answer = self.complete(
                list(self.spec.prompt)
                if isinstance(self.spec.prompt, tuple)
                else self.spec.prompt,
                max_tokens=READY_TOKENS,
                timeout=max(1.0, timeout),
            )
        except requests.ReadTimeout:
            self._check_start()
            text = (
                f"accepts connections, but a completion of {READY_TOKENS} tokens did "
                f"not come within {timeout:.0f} s"
            )
            self._fail_start(Cause.HUNG, text)
            return False
        except requests.ConnectionError:
            return False
        if answer.status_code >= 500:
            # Starting or dying; the process or the deadline will tell.
            return False
        if answer.status_code != 200:
            text = f"a completion got HTTP {answer.status_code}: {answer.text[:300]}"
            self._fail_start(Cause.REFUSED, text)
        self._check_completion(answer)
        return True

    def _check_completion(self, answer: requests.Response) -> None:
        try:
            body = answer.json()
            tokens = body["usage"]["completion_tokens"]
            served = body["model"]
        except (ValueError, KeyError, TypeError):
            tokens, served = None, None
        if tokens != READY_TOKENS or served != self.model:
            text = (
                f"asked {self.model} for {READY_TOKENS} tokens, got {tokens} from "
                f"{served}"
            )
            self._fail_start(Cause.REFUSED, text)

    def _check_start(self) -> None:
        status = self._process.poll()
        if status is not None:
            diagnosis = failure.diagnose(status, failure.read_log(self.log))
            raise ServerError(diagnosis, what="failed to start", log=self.log)
        if _plugin_failed(self.log):
            text = "a measuring plugin failed to load"
            self._fail_start(Cause.IMPORT, text)

    def _check_listener(self) -> None:
        """With SO_REUSEPORT two servers can share a port, half the requests each."""
        ours = {p.pid for p in self._process.members()}
        listeners = {
            c.pid
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == self.port
        }
        if not listeners or not listeners <= ours:
            text = f"port {self.port} is listened to by {listeners}, ours are {ours}"
            self._fail_start(Cause.PORT, text)

    def _fail_start(self, cause: Cause, text: str) -> None:
        diagnosis = Diagnosis(cause, text)
        raise ServerError(diagnosis, what="failed to start", log=self.log)


@contextlib.contextmanager
def serve(overlay: Overlay, spec: ServerSpec, folder: Path) -> Iterator[Server]:
    """A ready server; everything it started is gone when the context is left.

    A start that lost a port to another program is repeated: vLLM picks ports for its
    processes first and binds them later.

    Args:
        folder: Gets ``server-<n>.log``, one per boot, and the proof's files.

    Raises:
        ServerError: It failed to start; names the cause and shows the log's end.
        InfrastructureError: Something it started could not be ended.
    """
    with contextlib.ExitStack() as started:
        for further in reversed(range(_STARTS)):
            try:
                server = started.enter_context(_boot(overlay, spec, folder))
                break
            except ServerError as error:
                if error.diagnosis.cause is not Cause.PORT or not further:
                    raise
        yield server


@contextlib.contextmanager
def _boot(overlay: Overlay, spec: ServerSpec, folder: Path) -> Iterator[Server]:
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    log, proof_folder = _next_boot(folder)
    port, key = free_port(HOST), secrets.token_urlsafe(24)
    command = overlay.command(MODULE, *server_words(spec, port))
    files.write_atomic(log, f"$ {shlex.join(command)}\n")
    # Sockets of vLLM land here; their paths must stay short, so not in ``folder``.
    temporary = tempfile.mkdtemp(prefix="harness-")
    env = {
        **overlay.env,
        **spec.env,
        "VLLM_API_KEY": key,
        "TMPDIR": temporary,
        PROOF_FOLDER: str(proof_folder),
    }
    try:
        with Supervised(
            command, log=log, env=env, cwd=folder, grace=spec.stop_grace
        ) as process:
            server = Server(overlay, spec, process, port, key, proof_folder)
            server._await_ready()
            model_infos.keep(overlay.folder, overlay.tree, overlay.environment)
            yield server
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def server_words(spec: ServerSpec, port: int) -> list[str]:
    """What follows ``vllm``."""
    return [
        "serve",
        str(spec.model),
        "--served-model-name",
        spec.served_name,
        "--host",
        HOST,
        "--port",
        str(port),
        *spec.arguments,
    ]


def _next_boot(folder: Path) -> tuple[Path, Path]:
    """Log and proof folder of a boot that none before has used."""
    number = 1
    while (folder / f"server-{number}.log").exists():
        number += 1
    proof_folder = folder / f"proof-{number}"
    proof_folder.mkdir(exist_ok=True)
    return folder / f"server-{number}.log", proof_folder


def _plugin_failed(log: Path) -> bool:
    """vLLM only logs that a plugin failed; without it the run is another one."""
    return any("Failed to load plugin" in line for line in tail(log, 400))


def _is_engine(process: psutil.Process) -> bool:
    try:
        title = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return title.startswith(_ENGINE_TITLES)
