# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from harness.errors import InfrastructureError
from harness.measure.recorder import Exchange, Recorder
from harness.models.endpoint import Endpoint
from tests.unit.measure.conftest import FakeServer


def ask(url: str, prompt: str) -> requests.Response:
    body = {"prompt": prompt, "max_tokens": 2}
    headers = {"Authorization": "Bearer secret"}
    return requests.post(url, json=body, headers=headers, timeout=60)


def test_requests_pass_unchanged_and_are_kept(
    endpoint: Endpoint, fake: FakeServer
) -> None:
    prompts = [f"prompt {i}" for i in range(16)]
    with Recorder(endpoint, timeout=60) as recorder, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda p: ask(recorder.url, p), prompts))
    direct = ask(endpoint.completions, "prompt 0")
    assert {answer.text for answer in answers} == {direct.text}
    assert fake.bodies[0].keys() == {"prompt", "max_tokens"}
    kept = recorder.exchanges()
    assert sorted(e.prompt for e in kept) == sorted(prompts)
    assert {e.status for e in kept} == {200}


def test_errors_pass_and_are_kept(endpoint: Endpoint, fake: FakeServer) -> None:
    fake.status = 400
    with Recorder(endpoint, timeout=60) as recorder:
        answer = ask(recorder.url, "p")
    assert answer.status_code == 400
    (kept,) = recorder.exchanges()
    assert kept.status == 400
    assert "too long" in kept.body


def test_a_dead_server_is_kept_as_no_answer(endpoint: Endpoint) -> None:
    gone = endpoint.model_copy(update={"base_url": "http://127.0.0.1:9"})
    with Recorder(gone, timeout=2) as recorder:
        assert ask(recorder.url, "p").status_code == 502
    (kept,) = recorder.exchanges()
    assert kept.status == 0


def test_no_connection_to_the_server_is_used_twice() -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        end = Endpoint(base_url=url, api_key="k", model="m", tokenizer=Path("t"))
        with Recorder(end, timeout=10) as recorder:
            assert ask(recorder.url, "p").status_code == 200
    assert b"Connection: close" in asked[0]


def test_a_client_that_gives_up_is_not_told_of(
    endpoint: Endpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    with Recorder(endpoint, timeout=10) as recorder:
        host, port = recorder.url.split("/")[2].split(":")
        client = socket.create_connection((host, int(port)))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"POST /v1/comp")
        client.close()
        assert ask(recorder.url, "p").status_code == 200
    assert "Traceback" not in capfd.readouterr().err


def test_other_paths_are_not_handed_on(endpoint: Endpoint, fake: FakeServer) -> None:
    with Recorder(endpoint, timeout=2) as recorder:
        url = recorder.url.replace("completions", "embeddings")
        assert ask(url, "p").status_code == 404
    assert not fake.bodies
    assert not recorder.exchanges()


def test_token_prompts_are_refused() -> None:
    with pytest.raises(InfrastructureError, match="no single text prompt"):
        _ = Exchange({"prompt": [1, 2]}, 200, "").prompt
