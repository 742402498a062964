# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.git import Git
from tests.support.toy import ALPHA, BETA, Toy


def test_unchanged_patches_come_out_byte_identical(toy: Toy) -> None:
    before = toy.snapshot()
    done = toy.refresh()
    assert toy.snapshot() == before
    assert (done.written, done.added, done.dropped) == ((), (), ())


def test_an_amended_commit_changes_its_patch_alone(toy: Toy) -> None:
    before = toy.snapshot()
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 7")
    toy.commit_all("Drop a beta", amend=True)
    done = toy.refresh()
    assert done.written == (toy.series.patches[1].file,)
    after = toy.snapshot()
    assert b"+beta_0 = 7" in after[done.written[0]]
    first = toy.series.patches[0].file
    assert after[first] == before[first]
    assert toy.apply().changed is False


def test_the_author_is_the_project_whoever_committed(toy: Toy) -> None:
    raw = (toy.project.patches / toy.series.patches[0].file).read_bytes()
    assert b"\nFrom: Toy Series <toy@series.invalid>\n" in raw
    assert b"some@one.org" not in raw


def test_a_reworded_commit_keeps_its_file(toy: Toy) -> None:
    toy.commit_all("Another title", amend=True)
    done = toy.refresh()
    assert done.written == (toy.series.patches[1].file,)
    assert done.added == ()


def test_an_amended_commit_may_change_more_files(toy: Toy) -> None:
    """Its title tells whose it is, whatever its file is called."""
    entry = toy.series.patches[1]
    (toy.project.patches / entry.file).rename(toy.project.patches / "0002-own.patch")
    listing = toy.project.patches / "series.yaml"
    listing.write_text(listing.read_text().replace(entry.file, "0002-own.patch"))
    toy.edit(ALPHA, "alpha_15 = 15", "alpha_15 = 0")
    toy.commit_all("Drop a beta", amend=True)
    done = toy.refresh()
    assert done.written == ("0002-own.patch",)
    assert [t.path for t in toy.series.patch("0002").targets] == [ALPHA, BETA]


@pytest.mark.parametrize("spoilt", [b"spoilt\n", None])
def test_a_spoilt_or_lost_file_is_written_anew(toy: Toy, spoilt: bytes | None) -> None:
    before = toy.snapshot()
    file = toy.series.patches[0].file
    path = toy.project.patches / file
    path.unlink() if spoilt is None else path.write_bytes(spoilt)
    assert toy.refresh().written == (file,)
    assert toy.snapshot() == before


def test_a_new_commit_becomes_the_next_patch(toy: Toy) -> None:
    toy.edit(ALPHA, "alpha_15 = 15", "alpha_15 = 0")
    toy.commit_all("Zero another alpha")
    done = toy.refresh()
    assert done.added == ("0003-Bugfix-Core-Zero-another-alpha.patch",)
    entry = toy.series.patch("0003")
    assert [t.path for t in entry.targets] == [ALPHA]
    # It starts where the first patch of the same file ended.
    assert entry.targets[0].before == toy.series.patch("0001").targets[0].after


def test_a_lost_commit_needs_a_word(toy: Toy) -> None:
    before = toy.snapshot()
    Git(toy.checkout.resolve()).run("reset", "-q", "--hard", "HEAD~1")
    with pytest.raises(UsageError, match=r"no commit for 0002 .*--drop"):
        toy.refresh()
    assert toy.snapshot() == before
    done = toy.refresh(drop=True)
    assert done.dropped == (next(n for n in before if n.startswith("0002")),)
    assert [p.number for p in toy.series.patches] == ["0001"]
    assert not any(name.startswith("0002") for name in toy.snapshot())


def test_the_first_of_two_lost_does_not_take_the_second_for_itself(toy: Toy) -> None:
    git = Git(toy.checkout.resolve(), {"user.name": "n", "user.email": "e@f.org"})
    git.run("rebase", "-q", "--onto", "HEAD~2", "HEAD~1")
    toy.refresh(drop=True)
    assert [p.number for p in toy.series.patches] == ["0002"]


def test_uncommitted_edits_are_refused(toy: Toy) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 7")
    with pytest.raises(UsageError, match=r"uncommitted edits: .*beta\.py"):
        toy.refresh()


def test_a_new_file_is_refused(toy: Toy) -> None:
    (toy.checkout / "vllm/new.py").write_text("x = 1\n")
    Git(toy.checkout.resolve()).run("add", "vllm/new.py")
    toy.commit_all("Add a file")
    with pytest.raises(UsageError, match=r"vllm/new\.py: change of kind A"):
        toy.refresh()


def test_commits_off_the_pin_are_refused(toy: Toy) -> None:
    git = Git(toy.checkout.resolve(), {"user.name": "n", "user.email": "e@f.org"})
    git.run("checkout", "-q", "--orphan", "elsewhere")
    git.run("commit", "-q", "-m", "unrelated")
    with pytest.raises(UsageError, match="is not below HEAD"):
        toy.refresh()


def test_words_and_comments_of_the_series_file_stay(toy: Toy) -> None:
    file = toy.project.patches / "series.yaml"
    file.write_text("# our comment\n" + file.read_text())
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 7")
    toy.commit_all("Drop a beta", amend=True)
    toy.refresh()
    assert file.read_text().startswith("# our comment\n")
    assert "A toy that shows" in file.read_text()
