# SPDX-License-Identifier: Apache-2.0
"""Which lines of a few files a process executed.

Two ways in: :func:`start` from our own code, and :func:`plugin` as a vLLM general
plugin, for processes that vLLM starts. The plugin reads ``HARNESS_COVERAGE_DIR`` (where
to write, one JSON file per process) and ``HARNESS_COVERAGE_FILES`` (the files, joined
by ``os.pathsep``), and does nothing if the first is unset.

``sys.settrace`` calls us for every Python function; all but the named files cost one
dictionary look-up, which still doubles the time of importing vLLM. For that,
:meth:`LineRecorder.importing` traces the bodies of the named modules alone. Never use
either where time is measured.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

FOLDER_VARIABLE = "HARNESS_COVERAGE_DIR"
FILES_VARIABLE = "HARNESS_COVERAGE_FILES"
WRITE_EVERY = 2.0
"""Seconds between two writes of the plugin: vLLM kills its workers."""

_started = False


class LineRecorder:
    """Records executed lines of ``files`` in every thread of this process."""

    def __init__(self, files: Iterable[str | os.PathLike[str]]) -> None:
        self.lines: dict[str, set[int]] = {
            os.path.realpath(file): set() for file in files
        }
        self._resolved: dict[str, str | None] = {}

    def start(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """While the block runs, record the bodies of the named files as modules."""
        loader: Any = importlib.machinery.SourceFileLoader
        original = loader.exec_module

        def exec_module(this: Any, module: Any) -> None:
            before = sys.gettrace()
            named = os.path.realpath(module.__spec__.origin) in self.lines
            sys.settrace(self._call if named else None)
            try:
                original(this, module)
            finally:
                sys.settrace(before)

        loader.exec_module = exec_module
        try:
            yield
        finally:
            loader.exec_module = original

    def report(self) -> dict[str, list[int]]:
        """Executed line numbers, sorted, by the file's real path."""
        return {file: sorted(lines) for file, lines in self.lines.items() if lines}

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self._resolved:
            real = os.path.realpath(name)
            self._resolved[name] = real if real in self.lines else None
        file = self._resolved[name]
        if file is None:
            return None
        record = self.lines[file].add

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                record(frame.f_lineno)
            return line

        return line


class _Reporter:
    """Writes what a recorder saw, on and on and at the end, one file per process."""

    def __init__(self, recorder: LineRecorder, folder: Path) -> None:
        self._recorder = recorder
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.start()
        atexit.register(self.write)
        # Threads do not survive a fork, and vLLM loads plugins once per program.
        os.register_at_fork(after_in_child=self.start)

    def start(self) -> None:
        threading.Thread(
            target=self._on_and_on, name="harness-coverage", daemon=True
        ).start()

    def write(self) -> None:
        """Write ``coverage-<pid>.json``, whole or not at all."""
        # list() of a set is atomic under the interpreter lock; sorting it is not.
        seen = {file: list(lines) for file, lines in self._recorder.lines.items()}
        report = {file: sorted(lines) for file, lines in seen.items() if lines}
        name = f"coverage-{os.getpid()}.json"
        part = self._folder / f".{name}-{threading.get_ident()}"
        part.write_text(json.dumps(report))
        part.replace(self._folder / name)

    def _on_and_on(self) -> None:
        while True:
            self.write()
            time.sleep(WRITE_EVERY)


def plugin() -> None:
    """Entry point for ``vllm.general_plugins``: record until the process ends."""
    global _started
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or _started:
        return
    _started = True
    files = [f for f in os.environ.get(FILES_VARIABLE, "").split(os.pathsep) if f]
    recorder = LineRecorder(files)
    _Reporter(recorder, Path(folder))
    recorder.start()
