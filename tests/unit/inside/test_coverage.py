# SPDX-License-Identifier: Apache-2.0
"""Executed lines of named files, in this process and in processes that get killed."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.inside.coverage import FILES_VARIABLE, FOLDER_VARIABLE, LineRecorder
from harness.paths import default_root

MODULE = """\
import threading

def choose(x):
    if x:
        return 1
    return 2
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "covered_module.py"
    file.write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "covered_module", raising=False)
    return file


def test_import_and_calls_are_recorded_apart(module: Path) -> None:
    recorder = LineRecorder([module])
    tracer = sys.gettrace()
    with recorder.importing():
        covered = importlib.import_module("covered_module")
    assert recorder.report() == {str(module): [1, 3]}
    recorder.start()
    try:
        covered.choose(False)
    finally:
        recorder.stop()
        sys.settrace(tracer)
    assert recorder.report() == {str(module): [1, 3, 4, 6]}


def test_other_files_are_left_out(module: Path, tmp_path: Path) -> None:
    recorder = LineRecorder([tmp_path / "another.py"])
    with recorder.importing():
        importlib.import_module("covered_module")
    assert recorder.report() == {}


def test_a_killed_process_and_its_fork_leave_their_lines(
    module: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    script = (
        "import os, time; from harness.inside import coverage; coverage.plugin()\n"
        "import covered_module as c\n"
        "c.choose(not os.fork())\n"
        "time.sleep(60)\n"
    )
    path = os.pathsep.join([str(default_root()), str(tmp_path)])
    env = {
        **os.environ,
        "PYTHONPATH": path,
        FOLDER_VARIABLE: str(out),
        FILES_VARIABLE: str(module),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=env, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 60
        wanted = {(1, 3, 4, 5), (1, 3, 4, 6)}
        found: set[tuple[int, ...]] = set()
        while found != wanted and time.monotonic() < deadline:
            time.sleep(0.1)
            reports = [json.loads(p.read_text()) for p in out.glob("coverage-*.json")]
            found = {tuple(r[str(module)]) for r in reports if r}
        assert found == wanted
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_nothing_happens_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.inside import coverage

    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    before = sys.gettrace()
    coverage.plugin()
    assert sys.gettrace() is before
