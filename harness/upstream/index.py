# SPDX-License-Identifier: Apache-2.0
"""Files from the package index, checked, and cached whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pypi_simple
import requests

from harness.errors import InfrastructureError
from harness.files import locked, sha256_file
from harness.paths import cache_dir

Say = Callable[[str], None]
"""Takes one line for the user."""


def endpoint() -> str:
    """The index the user's tools are set up for, else the public one."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if os.environ.get(name):
            return os.environ[name]
    return pypi_simple.PYPI_SIMPLE_ENDPOINT


def fetch(project: str, filename: str, sha256: str, *, say: Say) -> Path:
    """A file of ``project`` on the index, from the cache when it is there.

    Returns:
        The path in the cache; its content was checked against ``sha256`` just now.

    Raises:
        InfrastructureError: The index can't be reached, lacks the file, or serves
            other bytes than the pinned ones.
    """
    target = cache_dir() / "downloads" / sha256 / filename
    with locked(target.parent.with_suffix(".lock")):
        if target.exists():
            if sha256_file(target) == sha256:
                return target
            say(f"{filename}: the cached copy is damaged; downloading it anew")
            target.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        for leftover in target.parent.glob(".part-*"):
            leftover.unlink()
        handle, name = tempfile.mkstemp(prefix=".part-", dir=target.parent)
        os.close(handle)
        part = Path(name)
        try:
            _download(project, filename, part, say)
            found = sha256_file(part)
            if found != sha256:
                raise InfrastructureError(
                    f"sha256 is {found}, expected {sha256}",
                    where=filename,
                    fix="the index served other bytes than the pinned release",
                )
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    return target


def _download(project: str, filename: str, part: Path, say: Say) -> None:
    try:
        with pypi_simple.PyPISimple(endpoint()) as client:
            page = client.get_project_page(project, timeout=30)
            for package in page.packages:
                if package.filename == filename:
                    size = f" ({package.size / 2**20:.1f} MiB)" if package.size else ""
                    say(f"downloading {filename}{size}")
                    client.download_package(package, part, timeout=60)
                    return
    except (requests.RequestException, pypi_simple.DigestMismatchError) as error:
        raise InfrastructureError(
            f"could not be downloaded: {type(error).__name__}",
            where=filename,
            fix="check the network and the package index that uv or pip is set up for",
        ) from error
    except pypi_simple.NoSuchProjectError as error:
        raise InfrastructureError(
            f"the package index has no project {project!r}", where=filename
        ) from error
    raise InfrastructureError(
        f"the package index has no such file for {project!r}", where=filename
    )
