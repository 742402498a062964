# SPDX-License-Identifier: Apache-2.0
"""``harness compat-benchmark``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

from harness.commands._common import context, emit, say
from harness.compat.trees import version_of
from harness.compat.wheels import IndexReleases
from harness.errors import ExitCode, InfrastructureError
from harness.paths import CACHE_VARIABLE

SUMMARY = "time and bytes of `harness compat`, cold and warm, against the wheels"
SINCE = "v0.22.0"


@dataclass(frozen=True)
class _Run:
    """One run as a process of its own, start of the interpreter included."""

    seconds: float
    megabytes: float


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", default=SINCE, help=f"oldest release (default {SINCE})"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    here = context(arguments)
    cache = tempfile.mkdtemp(prefix="harness-benchmark-")
    try:
        cold = _measure(arguments, cache)
        warm = _measure(arguments, cache)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    releases = IndexReleases(here.upstream.project, prereleases=False, say=say)
    try:
        since = version_of(arguments.since)
        tags = [
            tag
            for tag in releases.tags()
            if since is None or (version_of(tag) or since) >= since
        ]
        whole = sum(releases.size(tag) for tag in tags) / 1e6
    finally:
        releases.close()
    report = {
        "releases": len(tags),
        "cold": asdict(cold),
        "warm": asdict(warm),
        "wheels_megabytes": round(whole, 1),
    }
    lines = [
        f"{len(tags)} releases since {arguments.since}, one wheel each",
        f"cold      {cold.seconds:6.1f} s {cold.megabytes:9.1f} MB",
        f"warm      {warm.seconds:6.1f} s {warm.megabytes:9.1f} MB",
        f"wheels           - {whole:9.1f} MB  (as the index states; not downloaded)",
    ]
    emit(arguments, report, lines)
    return ExitCode.PASS


def _measure(arguments: argparse.Namespace, cache: str) -> _Run:
    command = [
        sys.executable, "-m", "harness", "--root", str(arguments.root),
        "compat", "--since", arguments.since, "--source", "index",
    ]  # fmt: skip
    command += ["--output", f"{cache}/output"]
    started = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, CACHE_VARIABLE: cache},
    )
    seconds = time.monotonic() - started
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode != 0 or not last.endswith("MB downloaded"):
        raise InfrastructureError(f"a run failed: {last}", where="harness compat")
    return _Run(round(seconds, 2), float(last.split()[2]))
