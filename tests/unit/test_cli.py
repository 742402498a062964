# SPDX-License-Identifier: Apache-2.0
"""How a command's end reaches the user."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable

import pytest

from harness import cli
from harness.errors import ExitCode, InfrastructureError


def run(monkeypatch: pytest.MonkeyPatch, command: Callable[[], ExitCode]) -> int:
    """``cli.main`` with one command, which is the function given."""

    def parser(named: object = ()) -> argparse.ArgumentParser:
        top = argparse.ArgumentParser()
        top.set_defaults(run=lambda arguments: command())
        return top

    monkeypatch.setattr(cli, "parser", parser)
    return cli.main([])


def test_an_error_is_its_detail_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> ExitCode:
        raise InfrastructureError("died", where="server", detail=["last", "words"])

    assert run(monkeypatch, fail) == ExitCode.INFRASTRUCTURE
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["  | last", "  | words", "harness: server: died"]


def test_sigterm_ends_a_command_in_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cleaned = []

    def wait() -> ExitCode:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)
        return ExitCode.PASS

    assert run(monkeypatch, wait) == ExitCode.INFRASTRUCTURE
    assert capsys.readouterr().err == "harness: interrupted\n"
    assert cleaned
