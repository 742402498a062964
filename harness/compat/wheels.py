# SPDX-License-Identifier: Apache-2.0
"""Releases read from the package index: a few members of each wheel, no download.

A wheel is a zip on a server that answers byte ranges, so its directory and the few
files that a series touches cost less than a megabyte of the 300. What was read is kept
under the wheel's own sha256 and checked against the directory's checksums on each use.
"""

from __future__ import annotations

import json
import re
import threading
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pypi_simple
import requests
import urllib3
from packaging.utils import parse_wheel_filename
from packaging.version import Version
from remotezip import RemoteZip, RemoteZipError
from requests.adapters import HTTPAdapter

from harness.errors import InfrastructureError, UsageError
from harness.files import write_atomic
from harness.paths import cache_dir
from harness.upstream.index import endpoint

TIMEOUT = 30
"""Seconds without an answer before a request counts as failed."""

Say = Callable[[str], None]


class IndexReleases:
    """The releases of ``project`` on the package index.

    Args:
        prereleases: Also release candidates and development versions.
        say: Takes one line for the user.
    """

    def __init__(self, project: str, *, prereleases: bool, say: Say) -> None:
        self._project = project
        self._prereleases = prereleases
        self._say = say
        self._counter = _Counter()

    @property
    def downloaded(self) -> int:
        return self._counter.bytes

    def tags(self) -> list[str]:
        return [f"v{version}" for version in sorted(self._wheels)]

    def tree(self, tag: str) -> WheelTree:
        version = Version(tag.removeprefix("v"))
        try:
            wheel = self._wheels[version]
        except KeyError:
            raise UsageError(
                f"the package index has no wheel of {self._project} {version}",
                where=tag,
            ) from None
        return WheelTree(tag, wheel, self._session)

    def archive(self, tag: str) -> tuple[str, str] | None:
        """File name and sha256 of the release's source archive, if it has one."""
        version = Version(tag.removeprefix("v"))
        for package in self._all:
            if package.package_type != "sdist" or package.version is None:
                continue
            digest = package.digests.get("sha256")
            if Version(package.version) == version and digest:
                return package.filename, digest
        return None

    def size(self, tag: str) -> int:
        """Bytes of the whole wheel, as the index states them (0: not stated)."""
        return self._wheels[Version(tag.removeprefix("v"))].size or 0

    def close(self) -> None:
        if "_session" in self.__dict__:
            self._session.close()

    @cached_property
    def _session(self) -> requests.Session:
        session = requests.Session()
        retry = urllib3.Retry(total=3, backoff_factor=0.3, status_forcelist=(502, 503))
        adapter = HTTPAdapter(pool_maxsize=16, pool_block=True, max_retries=retry)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        session.hooks["response"].append(self._counter)
        return session

    @cached_property
    def _wheels(self) -> dict[Version, pypi_simple.DistributionPackage]:
        best: dict[Version, tuple[object, pypi_simple.DistributionPackage]] = {}
        for package in self._all:
            if package.package_type != "wheel" or not package.digests.get("sha256"):
                continue
            _, version, build, _ = parse_wheel_filename(package.filename)
            if version.is_prerelease and not self._prereleases:
                continue
            rank = (build, "x86_64" in package.filename, package.filename)
            if version not in best or rank > best[version][0]:  # type: ignore[operator]
                best[version] = (rank, package)
        return {version: package for version, (_, package) in best.items()}

    @cached_property
    def _all(self) -> list[pypi_simple.DistributionPackage]:
        try:
            with pypi_simple.PyPISimple(endpoint(), session=self._session) as client:
                return client.get_project_page(self._project, timeout=TIMEOUT).packages
        except pypi_simple.NoSuchProjectError as error:
            raise UsageError(
                f"the package index has no project {self._project!r}"
            ) from error
        except requests.RequestException as error:
            raise InfrastructureError(
                f"the package index can't be reached: {type(error).__name__}",
                where=self._project,
                fix="check the network, or give SOURCE=git or a clone's path",
            ) from error


class WheelTree:
    """One release, read from its wheel."""

    remote = True

    def __init__(
        self,
        tag: str,
        wheel: pypi_simple.DistributionPackage,
        session: requests.Session,
    ) -> None:
        self.tag = tag
        self._wheel = wheel
        self._session = session
        self._home = cache_dir() / "compat" / "wheels" / wheel.digests["sha256"]
        self._listing: dict[str, str] | None = None

    @property
    def source(self) -> str:
        return self._wheel.filename

    def prepare(self, paths: Collection[str]) -> None:
        listing = self._cached_listing()
        wanted = {*paths, *self._version_files(listing or {})}
        if listing is not None and all(
            path not in listing or self._cached(path) is not None for path in wanted
        ):
            return
        with self._open() as archive:
            names = {
                info.filename: f"{info.CRC:08x}-{info.file_size}"
                for info in archive.infolist()
            }
            write_atomic(self._home / "listing.json", json.dumps(names, indent=0))
            self._listing = names
            for path in sorted({*paths, *self._version_files(names)}):
                if path in names and self._cached(path) is None:
                    write_atomic(self._member(path), archive.read(path))

    def commit(self) -> str | None:
        for path in self._version_files(self.fingerprints()):
            text = (self.read(path) or b"").decode("utf-8", "replace")
            found = re.search(r"commit_id = '?g([0-9a-f]{7,40})", text)
            if found:
                return found.group(1)
        return None

    def fingerprints(self) -> Mapping[str, str]:
        if self._cached_listing() is None:
            self.prepare(())
        return self._listing or {}

    def read(self, path: str) -> bytes | None:
        if path not in self.fingerprints():
            return None
        data = self._cached(path)
        if data is None:
            self.prepare([path])
            data = self._cached(path)
        if data is None:
            raise InfrastructureError(
                "what was read does not match the wheel's own checksum",
                where=f"{self.source}: {path}",
            )
        return data

    def covers(self, path: str) -> bool:
        """Wheels hold packages only: no tests, documents or build files."""
        top = path.split("/", 1)[0]
        return any(name.startswith(f"{top}/") for name in self.fingerprints())

    def _version_files(self, listing: Mapping[str, str]) -> list[str]:
        name = "/_version.py"
        return [n for n in listing if n.endswith(name) and n.count("/") == 1]

    def _member(self, path: str) -> Path:
        return self._home / "files" / path

    def _cached_listing(self) -> dict[str, str] | None:
        if self._listing is None:
            try:
                self._listing = json.loads((self._home / "listing.json").read_text())
            except (OSError, ValueError):
                return None
        return self._listing

    def _cached(self, path: str) -> bytes | None:
        try:
            data = self._member(path).read_bytes()
        except OSError:
            return None
        intact = f"{zlib.crc32(data):08x}-{len(data)}" == (self._listing or {})[path]
        return data if intact else None

    @contextmanager
    def _open(self) -> Iterator[RemoteZip]:
        try:
            with RemoteZip(
                self._wheel.url, session=self._session, timeout=TIMEOUT
            ) as archive:
                yield archive
        except (
            RemoteZipError,
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            raise InfrastructureError(
                f"could not be read: {type(error).__name__}: {error}",
                where=self.source,
                fix="try again; what was read is kept",
            ) from error


class _Counter:
    """Adds up what the server sends."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()

    def __call__(self, response: requests.Response, *_: object, **__: object) -> None:
        length = response.headers.get("Content-Length")
        size = int(length) if length else len(response.content)
        with self._lock:
            self.bytes += size
