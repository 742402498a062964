# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from harness.compat.gittrees import GitReleases
from harness.errors import InfrastructureError, UsageError
from tests.support.states import BASE, PATH, STATES, Upstream, build


@pytest.fixture
def upstream(tmp_path: Path, own_cache: Path) -> Upstream:
    return build(tmp_path, repeats=False)


@pytest.mark.parametrize("filters", [True, False], ids=["partial", "plain server"])
def test_remote_repository_is_read_like_a_local_one(
    upstream: Upstream, own_cache: Path, filters: bool
) -> None:
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        upstream.git.run("config", key, str(filters).lower())
    remote = GitReleases(f"file://{upstream.path}", prereleases=False)
    local = GitReleases(str(upstream.path), prereleases=False)
    assert remote.tags() == local.tags() == [BASE, *STATES.values()]
    theirs, ours = remote.tree(STATES["edited"]), local.tree(STATES["edited"])
    assert theirs.commit() == ours.commit()
    assert theirs.fingerprints() == ours.fingerprints()
    theirs.prepare([PATH, "no/such/file"])
    assert theirs.read(PATH) == ours.read(PATH)
    assert theirs.read("no/such/file") is None


def test_only_needed_blobs_are_fetched(upstream: Upstream, own_cache: Path) -> None:
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        upstream.git.run("config", key, "true")
    remote = GitReleases(f"file://{upstream.path}", prereleases=False)
    tree = remote.tree(BASE)
    tree.prepare([PATH])
    (home,) = (own_cache / "compat" / "git").glob("*.git")
    missing = type(upstream.git)(home).text(
        "rev-list", "--objects", "--missing=print", "--no-object-names", BASE
    )
    lost = [line for line in missing.splitlines() if line.startswith("?")]
    assert lost == [f"?{tree.fingerprints()['pkg/other.py']}"]


def test_unknown_tag_and_unreachable_repository(
    upstream: Upstream, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no such tag"):
        GitReleases(str(upstream.path), prereleases=False).tree("v9.9.9")
    with pytest.raises(InfrastructureError, match="check the repository"):
        GitReleases(f"file://{tmp_path}/nowhere", prereleases=False).tags()
