# SPDX-License-Identifier: Apache-2.0
"""A fake endpoint that counts like vLLM and fails on demand, and small cells."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.models.endpoint import Endpoint
from harness.models.facts import Origin, QuestionSource


@dataclass
class FakeServer:
    """Answers completions and counts them; a fault is switched on by its field."""

    status: int = 200
    tokens_short: int = 0
    """How many tokens each completion lacks."""
    finish_reason: str = "length"
    accept: int = 1
    """Accepted tokens per draft at position 0."""
    uncounted: int = 0
    """Tokens that the counter misses per request."""
    stranger: int = 0
    """Requests of others that are counted with each of ours."""
    speculates: bool = True
    lost_position: bool = False
    """Accepted tokens that no position counts."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    counters: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("requests", "prompt", "generated", "drafts", "accepted"), 0
        )
    )
    url: str = ""

    def complete(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.lock:
            self.bodies.append(body)
            if self.status != 200:
                return self.status, {"error": {"message": "prompt is too long"}}
            tokens = body["max_tokens"] - self.tokens_short
            prompt = body["prompt"]
            size = len(prompt.split()) if isinstance(prompt, str) else len(prompt)
            self.counters["requests"] += 1 + self.stranger
            self.counters["prompt"] += size
            self.counters["generated"] += tokens - self.uncounted
            self.counters["drafts"] += tokens
            self.counters["accepted"] += self.accept * tokens
        choice = {"text": "a", "finish_reason": self.finish_reason, "index": 0}
        usage = {"prompt_tokens": size, "completion_tokens": tokens}
        return 200, {"choices": [choice], "usage": usage}

    def metrics(self) -> str:
        count = self.counters
        lines = [
            'vllm:request_success_total{engine="0",finished_reason="length"} '
            f"{count['requests']}",
            f'vllm:prompt_tokens_total{{engine="0"}} {count["prompt"]}',
            f'vllm:generation_tokens_total{{engine="0"}} {count["generated"]}',
            'vllm:prefix_cache_hits_total{engine="0"} 0',
        ]
        if self.speculates:
            name = "vllm:spec_decode_num"
            position = 0 if self.lost_position else count["accepted"]
            lines += [
                f'{name}_drafts_total{{engine="0"}} {count["drafts"]}',
                f'{name}_draft_tokens_total{{engine="0"}} {count["drafts"]}',
                f'{name}_accepted_tokens_total{{engine="0"}} {count["accepted"]}',
                f'{name}_accepted_tokens_per_pos_total{{engine="0",position="0"}} '
                f"{position}",
            ]
        typed = [f"# TYPE {line.split('{')[0]} counter\n{line}\n" for line in lines]
        return "".join(typed)


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """A fake server on a loopback port."""
    state = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            status, answer = state.complete(json.loads(self.rfile.read(size)))
            self._send(status, json.dumps(answer).encode())

        def do_GET(self) -> None:
            self._send(200, state.metrics().encode())

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def endpoint(fake: FakeServer, tmp_path: Path) -> Endpoint:
    """The fake server, as a client sees it."""
    return Endpoint(base_url=fake.url, api_key="secret", model="m", tokenizer=tmp_path)


@pytest.fixture
def source() -> QuestionSource:
    """Some source of questions."""
    return QuestionSource(name="gsm8k", origin=Origin.FOLDER, test=1319, sha256={})


@pytest.fixture
def write_questions() -> Callable[..., None]:
    """Writes a set of questions into a folder."""

    def write(folder: Path, count: int = 3) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("test", "train"):
            rows = [
                {"question": f"{name} {i}?", "answer": f"#### {i}"}
                for i in range(count)
            ]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text(text)

    return write
