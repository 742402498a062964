# SPDX-License-Identifier: Apache-2.0
"""A recorder between a client and the completions endpoint.

lm-eval keeps an answer's text but drops the reason why it ended, and hides requests
that failed before a retry succeeded. The recorder hands every request on unchanged and
keeps what came back.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import requests

from harness.errors import InfrastructureError
from harness.models.endpoint import Endpoint

_HOST = "127.0.0.1"
_PATH = "/v1/completions"
_POLL = 0.02
"""Seconds in which the recorder notices that it is to end."""


@dataclass(frozen=True)
class Exchange:
    """One request and what came back for it."""

    request: Mapping[str, Any]
    status: int
    """HTTP status; 0: no answer at all."""
    body: str

    @property
    def prompt(self) -> str:
        """The prompt's text (requests with token ids or several prompts are not
        recorded ones: they raise)."""
        prompt = self.request.get("prompt")
        if not isinstance(prompt, str):
            raise InfrastructureError(
                "a request carries no single text prompt", where="the recorder"
            )
        return prompt

    def plain(self) -> dict[str, Any]:
        """For a file of raw data."""
        return {"request": self.request, "status": self.status, "body": self.body}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gives up leaves its connections; it says itself why."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Recorder:
    """A loopback server in front of ``endpoint``, for the time of the context.

    Args:
        timeout: Seconds that the endpoint may take for one request.
    """

    def __init__(self, endpoint: Endpoint, *, timeout: float) -> None:
        self._exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._endpoint = endpoint
        self._timeout = timeout
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Header and body go out in two writes; without this the client's
            # delayed acknowledgement adds 40 ms to every request.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                payload = self.rfile.read(size)
                status, body = 404, b"{}"
                if self.path == _PATH:
                    key = self.headers.get("Authorization", "")
                    status, body = recorder.forward(payload, key)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Exchanges are kept; a line per request says nothing more."""

        self._server = _Server((_HOST, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), daemon=True
        )

    @property
    def url(self) -> str:
        """Where the client must ask."""
        return f"http://{_HOST}:{self._server.server_address[1]}{_PATH}"

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def exchanges(self) -> list[Exchange]:
        """All finished exchanges so far."""
        with self._lock:
            return list(self._exchanges)

    def forward(self, payload: bytes, authorization: str) -> tuple[int, bytes]:
        """Hand one request on and record it; status and body for the client."""
        try:
            answer = requests.post(
                self._endpoint.completions,
                data=payload,
                headers={
                    "Authorization": authorization,
                    "Content-Type": "application/json",
                    # The server ends connections that were idle for five seconds, and
                    # may do so just when one is used again.
                    "Connection": "close",
                },
                timeout=self._timeout,
            )
            status, body = answer.status_code, answer.content
        except requests.RequestException as error:
            status, body = 0, json.dumps({"error": str(error)}).encode()
        try:
            request = json.loads(payload)
        except ValueError:
            request = {}
        with self._lock:
            self._exchanges.append(
                Exchange(request, status, body.decode(errors="replace"))
            )
        return status or 502, body
