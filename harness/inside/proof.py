# SPDX-License-Identifier: Apache-2.0
"""Reports, from inside every vLLM process, which files it runs.

A general plugin of vLLM. A daemon thread looks once a second for request files in the
folder that HARNESS_PROOF_DIR names and answers each with a file of its own; between
requests it does nothing else, so it does not disturb what is measured.

Request ``request-<id>.json``: {"targets": ["vllm/a/b.py", ...]}.
Answer ``answer-<id>-<pid>.json``: see :func:`report`.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

FOLDER = "HARNESS_PROOF_DIR"
"""Environment variable: where requests come in and answers go."""

PERIOD = 1.0
"""Seconds between looks at the folder."""

_started_in: int | None = None


def main() -> None:
    """The plugin's entry: watch for requests in this process and its forks."""
    global _started_in
    folder = os.environ.get(FOLDER)
    if not folder or _started_in == os.getpid():
        return
    if _started_in is None:
        # Threads do not survive a fork, and vLLM loads plugins once per program.
        os.register_at_fork(after_in_child=main)
    _started_in = os.getpid()
    thread = threading.Thread(
        target=watch, args=(Path(folder),), name="harness-proof", daemon=True
    )
    thread.start()


def watch(folder: Path) -> None:
    """Answer every request in ``folder``, for ever."""
    answered: set[str] = set()
    while True:
        for path in sorted(folder.glob("request-*.json")):
            if path.name not in answered:
                answered.add(path.name)
                answer(path)
        time.sleep(PERIOD)


def answer(request: Path) -> None:
    """Write this process's answer beside ``request``, whole or not at all."""
    targets = json.loads(request.read_text())["targets"]
    number = request.stem.removeprefix("request-")
    path = request.with_name(f"answer-{number}-{os.getpid()}.json")
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(report(targets)))
    aside.replace(path)


def report(targets: list[str]) -> dict[str, Any]:
    """What this process runs.

    Args:
        targets: Paths of modules inside vLLM's tree, as ``vllm/config/x.py``.

    Returns:
        ``pid``, ``ppid``, ``role`` (the name vLLM gave the process), ``title``,
        ``argv``, ``vllm_file``, and ``modules``: for each target ``path``,
        ``imported``, ``file`` (of the imported module, or the one that an import
        would find) and ``blob`` (git's id of that file's bytes; None if it can't be
        read).
    """
    vllm = sys.modules.get("vllm")
    vllm_file = getattr(vllm, "__file__", None)
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "role": multiprocessing.current_process().name,
        "title": _title(),
        "vllm_file": vllm_file,
        "modules": [_module(target, vllm_file) for target in targets],
    }


def _module(target: str, vllm_file: str | None) -> dict[str, Any]:
    name = target.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = sys.modules.get(name)
    found = getattr(module, "__file__", None)
    if found is None and vllm_file is not None:
        # Not through importlib: finding a module imports the packages above it.
        found = str(Path(vllm_file).parent.parent / target)
    return {
        "path": target,
        "imported": module is not None,
        "file": str(Path(found).resolve()) if found else None,
        "blob": _blob(found),
    }


def _blob(path: str | None) -> str | None:
    try:
        data = Path(path).read_bytes() if path else None
    except OSError:
        return None
    if data is None:
        return None
    header = f"blob {len(data)}\0".encode()
    return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()


def _title() -> str:
    raw = Path("/proc/self/cmdline").read_bytes()
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()
