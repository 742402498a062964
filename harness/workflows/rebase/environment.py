# SPDX-License-Identifier: Apache-2.0
"""Locks of the environments in which another release is measured."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import uv
from packaging.requirements import Requirement

from harness.compat.wheels import IndexReleases
from harness.errors import HarnessError, InfrastructureError
from harness.files import write_atomic
from harness.models.pin import Upstream
from harness.paths import Project
from harness.upstream.index import Say

_PYTHON = "3.11"
"""As in `make lock`."""

_UV_MARK = " \u00d7"
"""What uv draws before an error."""

_TIMEOUT = 600
"""Seconds for resolving one lock."""


def write_locks(
    pinned: Project, upstream: Upstream, target: Upstream, folder: Path, say: Say
) -> None:
    """Write to ``folder`` the locks of ``pinned``, moved to the release ``target``.

    A lock whose source names the pinned version is resolved anew with the release's;
    where the index can't serve that, the lock is left out with one line that says so.
    The others are copied.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for lock in sorted(pinned.requirements.glob("*.txt")):
        source = lock.with_suffix(".in")
        if not source.exists():
            # The harness's own locks are of no release.
            continue
        text = source.read_text("utf-8")
        found = re.search(rf"^([\w-]+)=={re.escape(upstream.version)}$", text, re.M)
        if found is None:
            shutil.copyfile(lock, folder / lock.name)
            continue
        moved = f"{found[1]}=={target.version}"
        overrides = lock.with_suffix(".overrides")
        try:
            kept = overrides.read_text("utf-8") if overrides.exists() else ""
            wanted = _overrides(kept, found[1], target, say)
            _resolve(moved, wanted, folder / lock.name)
        except HarnessError as error:
            say(f"no {lock.stem} environment for {target.tag}: {error.line()}")


def _overrides(kept: str, distribution: str, target: Upstream, say: Say) -> str:
    """The overrides, with each version pin moved to the one that the release asks for.

    A wheel may ask for a local version (torch==2.11.0+cpu) that the index does not
    have; the override then names the plain build of the same version.
    """
    asked = _asked(distribution, target, say)
    lines = []
    for line in kept.splitlines():
        pin = re.match(r"([\w-]+)==\S+$", line)
        if pin and pin[1] in asked:
            line = f"{pin[1]}=={asked[pin[1]]}"
        if not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _asked(distribution: str, target: Upstream, say: Say) -> dict[str, str]:
    """Public version of every exact pin of the distribution at the release."""
    releases = IndexReleases(distribution, prereleases=True, say=say)
    try:
        tree = releases.tree(target.tag)
        name = f"{distribution.replace('-', '_')}-{target.version}.dist-info/METADATA"
        metadata = (tree.read(name) or b"").decode("utf-8", "replace")
    finally:
        releases.close()
    pins = {}
    for line in re.findall(r"^Requires-Dist: (.+)$", metadata, re.M):
        requirement = Requirement(line)
        exact = [s.version for s in requirement.specifier if s.operator == "=="]
        if exact and "extra ==" not in line:
            pins[requirement.name] = exact[0].partition("+")[0]
    return pins


def _resolve(requirement: str, overrides: str, lock: Path) -> None:
    source, override = lock.with_suffix(".in"), lock.with_suffix(".overrides")
    write_atomic(source, f"{requirement}\n")
    write_atomic(override, overrides)
    command = [
        uv.find_uv_bin(), "pip", "compile", "-q", "--generate-hashes",
        "--no-emit-index-url", "--python-version", _PYTHON,
        "--custom-compile-command", "make rebase",
        "--override", override.name, source.name, "-o", lock.name,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            cwd=lock.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError("uv gave no answer", where=requirement) from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[0].strip(_UV_MARK) if lines else "uv failed"
        raise InfrastructureError(reason, where=requirement)
