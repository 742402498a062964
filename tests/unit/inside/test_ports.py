# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
from pathlib import Path

import pytest

from harness.inside import ports


def test_the_kernel_gives_these_ports_to_nobody() -> None:
    first = int(ports.RANGE.read_text().split()[0])
    found = [ports.free_port() for _ in range(20)]
    assert len(set(found)) == 20
    assert all(ports.LOWEST <= port < first for port in found)


def test_a_port_in_use_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = ports.free_port()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", taken))
        listener.listen()
        monkeypatch.setattr(ports, "_asked", iter([taken - ports.LOWEST]))
        monkeypatch.setattr(ports, "_STRIDE", 0)
        assert ports.free_port() == taken + 1


def test_an_unreadable_range_is_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "RANGE", tmp_path / "none")
    assert ports.LOWEST <= ports.free_port() < 32768
