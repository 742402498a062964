# SPDX-License-Identifier: Apache-2.0
"""The pin of another release, and its tree."""

from __future__ import annotations

from harness.compat.gittrees import GitReleases
from harness.compat.wheels import IndexReleases
from harness.errors import InfrastructureError, UsageError
from harness.models.base import validate
from harness.models.pin import SourceArchive, Upstream
from harness.upstream.index import Say
from harness.upstream.source import GIT, SDIST


def pin_release(
    upstream: Upstream, tag: str, source: str | None, say: Say
) -> tuple[Upstream, str]:
    """Describe release ``tag`` as the pin of a series.

    Args:
        source: As for ``make apply``: git, sdist, a clone, or None for git and then
            the index.

    Returns:
        The pin, with no targets yet, and the source that has the release.

    Raises:
        UsageError: There is no such release.
        InfrastructureError: Neither source can be reached.
    """
    if source == SDIST:
        return _from_index(upstream, tag, say), SDIST
    try:
        return _from_git(upstream, tag, source or GIT), source or GIT
    except InfrastructureError as error:
        if source is not None:
            raise
        say(f"git can't be reached, using the source archive: {error.what}")
        return _from_index(upstream, tag, say), SDIST


def _from_git(upstream: Upstream, tag: str, source: str) -> Upstream:
    where = upstream.repository if source == GIT else source
    releases = GitReleases(where, prereleases=True)
    releases.tree(tag)
    return _pin(upstream, tag, releases.commit(tag), None)


def _from_index(upstream: Upstream, tag: str, say: Say) -> Upstream:
    releases = IndexReleases(upstream.project, prereleases=True, say=say)
    try:
        commit = releases.tree(tag).commit()
        archive = releases.archive(tag)
    finally:
        releases.close()
    if archive is None or commit is None:
        lacks = "source archive" if archive is None else "commit id"
        raise UsageError(f"the release on the index has no {lacks}", where=tag)
    filename, sha256 = archive
    generated = upstream.sdist.generated if upstream.sdist else ()
    sdist = SourceArchive(filename=filename, sha256=sha256, generated=generated)
    return _pin(upstream, tag, commit, sdist)


def _pin(
    upstream: Upstream, tag: str, commit: str, sdist: SourceArchive | None
) -> Upstream:
    plain = upstream.model_dump(mode="json", exclude={"wheel_commit"})
    plain |= {"tag": tag, "commit": commit, "targets": {}}
    plain["sdist"] = sdist.model_dump(mode="json") if sdist else None
    return validate(plain, Upstream, where=tag)
