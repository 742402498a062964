# SPDX-License-Identifier: Apache-2.0
"""The pinned upstream tree as a bare repository in the cache, from git or the index."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InfrastructureError, UsageError
from harness.files import locked
from harness.git import Git, GitError
from harness.models.pin import Upstream
from harness.paths import cache_dir
from harness.upstream.archive import import_archive
from harness.upstream.index import Say, fetch

SDIST = "sdist"
GIT = "git"


@dataclass(frozen=True)
class SourceRepository:
    """A bare repository that holds the pinned commit.

    Attributes:
        path: The bare repository.
        commit: The commit that ``refs/tags/<tag>`` names there.
        source: What to pass as SOURCE to get the same again.
    """

    path: Path
    commit: str
    source: str


def obtain(upstream: Upstream, source: str | None, *, say: Say) -> SourceRepository:
    """Get the pinned tree and prove that its target files are the pinned ones.

    Args:
        source: ``git`` (the upstream repository), ``sdist`` (the package index), the
            path or URL of a clone, or None: git, and the index when git fails.

    Raises:
        InfrastructureError: The source can't be reached.
        UsageError: The tree's target files are not the pinned ones.
    """
    if source == SDIST:
        found = _from_archive(upstream, say)
    elif source is not None:
        found = _from_git(upstream, source, say)
    else:
        try:
            found = _from_git(upstream, GIT, say)
        except InfrastructureError as error:
            say(f"git can't be reached, using the source archive: {error.what}")
            found = _from_archive(upstream, say)
    check_identity(Git(found.path), found.commit, upstream, where=found.source)
    return found


def check_identity(git: Git, commit: str, upstream: Upstream, *, where: str) -> None:
    """Refuse a tree whose target files differ from the pin.

    Raises:
        UsageError: Names the first file with the expected and the found blob id.
    """
    for path, expected in upstream.targets.items():
        found = blob_at(git, commit, path)
        if found != expected:
            raise UsageError(
                f"{path} is {found or 'missing'}, expected {expected}",
                where=f"{where} at {upstream.tag}",
                fix="this tree is not the pinned release",
            )


def blob_at(git: Git, commit: str, path: str) -> str | None:
    """The blob id of ``path`` in ``commit``; None if there is no such file."""
    done = git.run("rev-parse", "--verify", "-q", f"{commit}:{path}", check=False)
    return done.text if done.status == 0 else None


def _from_archive(upstream: Upstream, say: Say) -> SourceRepository:
    home = cache_dir() / "upstream" / f"sdist-{upstream.archive.sha256[:16]}.git"
    with locked(home.with_suffix(".lock")):
        commit = _tagged_commit(home, upstream)
        if commit is None:
            pin = upstream.archive
            archive = fetch(upstream.project, pin.filename, pin.sha256, say=say)
            say(f"importing {pin.filename}")
            with _aside(home) as fresh:
                commit = import_archive(archive, upstream, fresh)
                fresh.rename(home)
    return SourceRepository(home, commit, SDIST)


def _from_git(upstream: Upstream, source: str, say: Say) -> SourceRepository:
    url = upstream.repository if source == GIT else source
    if "://" not in url and Path(url).expanduser().exists():
        url = str(Path(url).expanduser().resolve())
    key = hashlib.sha256(f"{url} {upstream.tag}".encode()).hexdigest()[:16]
    home = cache_dir() / "upstream" / f"git-{key}.git"
    with locked(home.with_suffix(".lock")):
        commit = _tagged_commit(home, upstream)
        if commit is None:
            with _aside(home) as fresh:
                commit = _fetch_tag(fresh, url, upstream, say)
                fresh.rename(home)
    return SourceRepository(home, commit, source)


def _fetch_tag(into: Path, url: str, upstream: Upstream, say: Say) -> str:
    say(f"fetching {upstream.tag} from {url}")
    into.mkdir(parents=True)
    # Without a limit a black-holed connection would hang for the TCP timeout.
    git = Git(into, {"http.lowSpeedLimit": "1000", "http.lowSpeedTime": "30"})
    git.run("init", "-q", "--bare", "--template=")
    # The whole tree is checked out, so a blob filter would only add round trips.
    reference = f"refs/tags/{upstream.tag}"
    local = {"safe.directory": url} if Path(url).exists() else {}
    try:
        Git(into, {**git.settings, **local}).run(
            "fetch", "-q", "--depth=1", "--no-tags", url, f"{reference}:{reference}",
            transport=True,
        )  # fmt: skip
    except GitError as error:
        raise InfrastructureError(
            error.what.removeprefix("git fetch failed: "), where=url
        ) from error
    commit = git.text("rev-parse", f"{reference}^{{commit}}")
    if not commit.startswith(upstream.commit):
        say(f"note: {upstream.tag} is {commit} there, not {upstream.commit}")
    return commit


def _tagged_commit(home: Path, upstream: Upstream) -> str | None:
    """The tag's commit when ``home`` is a whole repository, else None."""
    if not home.is_dir():
        return None
    git = Git(home)
    name = f"refs/tags/{upstream.tag}^{{commit}}"
    done = git.run("rev-parse", "--verify", "-q", name, check=False)
    if done.status != 0 or git.run("ls-tree", "-r", done.text, check=False).status:
        shutil.rmtree(home)
        return None
    return done.text


class _aside:
    """A fresh folder beside ``home``, removed unless it was switched in."""

    def __init__(self, home: Path) -> None:
        home.parent.mkdir(parents=True, exist_ok=True)
        for leftover in home.parent.glob(f".{home.name}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        self._outer = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))

    def __enter__(self) -> Path:
        return self._outer / "repository"

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._outer, ignore_errors=True)
