# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.git import Git
from harness.models.pin import Upstream
from harness.upstream import source as sources
from harness.upstream.archive import import_archive
from harness.upstream.source import obtain
from tests.support.toy import ALPHA, BETA, FILES, TAG, Toy

GENERATED = {"PKG-INFO": "x", "vllm/_version.py": "x", "toy.egg-info/a.txt": "x"}


def _archive(path: Path, entries: dict[str, str], mode: int = 0o664) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in entries.items():
            member = tarfile.TarInfo(f"toy-1.2.3/{name}")
            member.size = len(text.encode())
            member.mode = mode
            member.mtime = 12345
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def _pinned_to(toy: Toy, archive: Path) -> Upstream:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    sdist = toy.upstream.sdist.model_copy(
        update={
            "sha256": digest,
            "generated": ("PKG-INFO", "toy.egg-info/", "vllm/_version.py"),
        }
    )
    return toy.upstream.model_copy(update={"sdist": sdist})


def _names(repository: Path, commit: str) -> list[str]:
    return Git(repository).text("ls-tree", "-r", "--name-only", commit).splitlines()


def test_an_archive_becomes_the_same_commit_everywhere(
    toy: Toy, tmp_path: Path
) -> None:
    archive = _archive(tmp_path / "a.tar.gz", {**FILES, **GENERATED})
    upstream = _pinned_to(toy, archive)
    one = import_archive(archive, upstream, tmp_path / "one.git")
    other = import_archive(archive, upstream, tmp_path / "other.git")
    assert one == other
    assert _names(tmp_path / "one.git", one) == ["README.md", ALPHA, BETA]
    tree = Git(toy.clone).text("rev-parse", f"{toy.commit}^{{tree}}")
    assert Git(tmp_path / "one.git").text("rev-parse", f"{one}^{{tree}}") == tree


def test_executable_files_stay_executable(toy: Toy, tmp_path: Path) -> None:
    archive = _archive(tmp_path / "a.tar.gz", FILES, mode=0o775)
    commit = import_archive(archive, _pinned_to(toy, archive), tmp_path / "r.git")
    modes = Git(tmp_path / "r.git").text("ls-tree", "-r", commit).split()[::4]
    assert set(modes) == {"100755"}


@pytest.mark.parametrize("name", ["../evil", "a/../../evil"])
def test_an_archive_that_leaves_its_folder_is_refused(
    toy: Toy, tmp_path: Path, name: str
) -> None:
    archive = _archive(tmp_path / "a.tar.gz", {name: "x"})
    with pytest.raises(InfrastructureError, match="unexpected entry"):
        import_archive(archive, _pinned_to(toy, archive), tmp_path / "r.git")


def test_without_a_source_git_comes_first(toy: Toy) -> None:
    found = obtain(toy.upstream, None, say=lambda line: None)
    assert (found.source, found.commit) == ("git", toy.commit)


def test_an_unreachable_git_falls_back_to_the_archive_with_one_line(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = _archive(tmp_path / "a.tar.gz", FILES)
    upstream = _pinned_to(toy, archive).model_copy(
        update={"repository": str(tmp_path / "nowhere")}
    )
    monkeypatch.setattr(sources, "fetch", lambda *a, **k: archive)
    said: list[str] = []
    found = obtain(upstream, None, say=said.append)
    assert found.source == "sdist"
    told = [line for line in said if "using the source archive" in line]
    assert len(told) == 1
    assert "\n" not in told[0]


def test_a_source_that_was_asked_for_is_not_replaced(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="nowhere"):
        obtain(toy.upstream, str(tmp_path / "nowhere"), say=lambda line: None)


def test_only_the_one_tag_is_fetched(toy: Toy) -> None:
    git = Git(toy.clone, {"user.name": "n", "user.email": "e@f.org"})
    git.run("commit", "-q", "--allow-empty", "-m", "later")
    git.run("tag", "v9.9.9")
    try:
        upstream = toy.upstream.model_copy(update={"project": "other"})
        found = obtain(upstream, f"file://{toy.clone}", say=lambda line: None)
        refs = Git(found.path).text("for-each-ref", "--format=%(refname)")
        assert refs == f"refs/tags/{TAG}"
        count = Git(found.path).text("rev-list", "--all", "--count")
        assert count == "1"
    finally:
        git.run("tag", "-d", "v9.9.9")
        git.run("reset", "-q", "--hard", toy.commit)


def test_a_repository_cut_off_half_way_is_fetched_anew(toy: Toy) -> None:
    found = obtain(toy.upstream, str(toy.clone), say=lambda line: None)
    for pack in found.path.glob("objects/*"):
        if pack.name not in ("info",):
            for file in pack.iterdir():
                file.chmod(0o644)
                file.unlink()
    again = obtain(toy.upstream, str(toy.clone), say=lambda line: None)
    assert again.commit == toy.commit


def test_another_tree_is_refused_by_file_and_blob(toy: Toy) -> None:
    other = {**toy.upstream.targets, BETA: "c" * 40}
    upstream = toy.upstream.model_copy(update={"targets": other})
    with pytest.raises(UsageError, match=f"{BETA} is .*, expected {'c' * 40}"):
        obtain(upstream, str(toy.clone), say=lambda line: None)


def test_a_missing_target_is_refused(toy: Toy) -> None:
    other = {**toy.upstream.targets, "vllm/none.py": "c" * 40}
    upstream = toy.upstream.model_copy(update={"targets": other})
    with pytest.raises(UsageError, match=r"vllm/none\.py is missing"):
        obtain(upstream, str(toy.clone), say=lambda line: None)
