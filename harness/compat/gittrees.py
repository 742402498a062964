# SPDX-License-Identifier: Apache-2.0
"""Releases read from tags of a git repository; only the needed blobs are fetched."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path

from harness.compat.trees import version_of
from harness.errors import InfrastructureError, UsageError
from harness.files import locked
from harness.git import Git, GitError
from harness.paths import cache_dir


class GitReleases:
    """The tags of a repository.

    Args:
        where: A clone's path, read in place, or a URL, of which a partial clone is
            kept in the cache.
        prereleases: Also release candidates and development versions.
    """

    def __init__(self, where: str, *, prereleases: bool) -> None:
        path = Path(where).expanduser()
        self._local = "://" not in where and path.exists()
        self._where = str(path.resolve()) if self._local else where
        self._prereleases = prereleases
        key = hashlib.sha256(self._where.encode()).hexdigest()[:16]
        self._home = (
            Path(self._where)
            if self._local
            else cache_dir() / "compat" / "git" / f"{key}.git"
        )
        self._downloaded = 0

    @property
    def downloaded(self) -> int:
        return self._downloaded

    def close(self) -> None:
        """Nothing is held open."""

    def tags(self) -> list[str]:
        versions = {tag: version_of(tag) for tag in self._tags}
        named = [
            (version, tag)
            for tag, version in versions.items()
            if version is not None and (self._prereleases or not version.is_prerelease)
        ]
        return [tag for _, tag in sorted(named)]

    def tree(self, tag: str) -> GitTree:
        if tag not in self._tags:
            raise UsageError("there is no such tag", where=f"{self._where} {tag}")
        return GitTree(tag, self)

    def commit(self, tag: str) -> str:
        """The commit of ``tag``, fetched (without its files) when it is remote."""
        name = f"refs/tags/{tag}"
        if not self._local:
            with locked(self._home.with_suffix(".lock")):
                self._begin()
                wanted = self._tags[tag]
                done = self._git.run("rev-parse", "-q", "--verify", name, check=False)
                if done.text != wanted:
                    self._fetch("--depth=1", "origin", f"+{name}:{name}")
        return self._git.text("rev-parse", f"{name}^{{commit}}")

    def blobs(self, commit: str, paths: Collection[str]) -> dict[str, bytes]:
        """Contents of those of ``paths`` that ``commit`` has."""
        ids = self.listing(commit)
        wanted = {path: ids[path] for path in paths if path in ids}
        self._ensure(set(wanted.values()))
        return {path: self._blob(oid) for path, oid in wanted.items()}

    def listing(self, commit: str) -> dict[str, str]:
        """Every file of ``commit`` with its blob id."""
        if commit not in self._listings:
            out = self._git.run("ls-tree", "-r", "-z", "--full-tree", commit).stdout
            found: dict[str, str] = {}
            for entry in out.split(b"\0")[:-1]:
                kind, name = entry.split(b"\t", 1)
                if kind.split()[1] == b"blob":
                    path = name.decode("utf-8", "surrogateescape")
                    found[path] = kind.split()[2].decode()
            self._listings[commit] = found
        return self._listings[commit]

    @cached_property
    def _listings(self) -> dict[str, dict[str, str]]:
        return {}

    @cached_property
    def _git(self) -> Git:
        # A partial clone asks its remote for missing blobs, by the remote's URL.
        return Git(
            self._home, {"http.lowSpeedLimit": "1000", "http.lowSpeedTime": "30"}
        )

    @cached_property
    def _tags(self) -> dict[str, str]:
        if self._local:
            lines = self._git.run("show-ref", "--tags", check=False).lines
        else:
            with locked(self._home.with_suffix(".lock")):
                self._begin()
                lines = self._transport("ls-remote", "--tags", self._where).splitlines()
        pairs = (line.split(maxsplit=1) for line in lines)
        return {
            name.removeprefix("refs/tags/"): oid
            for oid, name in pairs
            if not name.endswith("^{}")
        }

    def _begin(self) -> None:
        if not (self._home / "HEAD").exists():
            self._home.mkdir(parents=True, exist_ok=True)
            self._git.run("init", "-q", "--bare", "--template=")
            for key, value in (
                ("core.repositoryformatversion", "1"),
                ("extensions.partialClone", "origin"),
                ("remote.origin.url", self._where),
                ("remote.origin.promisor", "true"),
                ("remote.origin.partialclonefilter", "blob:none"),
            ):
                self._git.run("config", key, value)

    def _fetch(self, *arguments: str) -> None:
        self._transport("fetch", "-q", "--no-tags", "--filter=blob:none", *arguments)

    def _ensure(self, blobs: set[str]) -> None:
        """Fetch all blobs that are not there in one request instead of one each."""
        if self._local or not blobs:
            return
        lock = self._home.with_suffix(".lock")
        with locked(lock), tempfile.TemporaryFile() as stream:
            stream.write("".join(f"{oid}\n" for oid in sorted(blobs)).encode())
            stream.seek(0)
            # The form of git's own request for what a partial clone lacks; what is
            # there is not asked for again.
            git = Git(self._home, {"fetch.negotiationAlgorithm": "noop"})
            # A server that serves no single objects has sent whole trees before, so a
            # failure here shows, if at all, when a blob is read.
            git.run(
                "fetch", "-q", "origin", "--no-tags", "--no-write-fetch-head",
                "--recurse-submodules=no", "--filter=blob:none", "--stdin",
                stdin=stream, transport=True, check=False,
            )  # fmt: skip

    def _blob(self, oid: str) -> bytes:
        return self._git.run("cat-file", "blob", oid).stdout

    def _transport(self, *arguments: str) -> str:
        try:
            return self._git.run(*arguments, transport=True).text
        except GitError as error:
            raise InfrastructureError(
                error.what,
                where=self._where,
                fix="check the repository and the network",
            ) from error


class GitTree:
    """The files of a tag, or of a commit that stands for it."""

    source = "git"

    def __init__(
        self, tag: str, releases: GitReleases, commit: str | None = None
    ) -> None:
        self.tag = tag
        self._releases = releases
        self._given = commit
        self._files: dict[str, bytes] = {}

    @property
    def remote(self) -> bool:
        return not self._releases._local

    @cached_property
    def _commit(self) -> str:
        return self._given or self._releases.commit(self.tag)

    def prepare(self, paths: Collection[str]) -> None:
        missing = [path for path in paths if path not in self._files]
        if missing:
            self._files.update(self._releases.blobs(self._commit, missing))

    def commit(self) -> str | None:
        return self._commit

    def fingerprints(self) -> Mapping[str, str]:
        return self._releases.listing(self._commit)

    def read(self, path: str) -> bytes | None:
        self.prepare([path])
        return self._files.get(path)

    def covers(self, path: str) -> bool:
        del path
        return True
