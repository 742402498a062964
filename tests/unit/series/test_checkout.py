# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import PatchError, UsageError
from harness.git import Git
from harness.paths import cache_dir
from tests.support.toy import ALPHA, BETA, TAG, Toy


def _ids(toy: Toy) -> list[str]:
    return Git(toy.checkout.resolve()).text("rev-list", "HEAD").splitlines()


def test_log_shows_the_pin_and_one_commit_per_patch(toy: Toy) -> None:
    git = Git(toy.checkout.resolve())
    assert git.text("rev-parse", "HEAD~2") == toy.commit
    names = git.text("diff", "--name-only", toy.commit, "HEAD").splitlines()
    assert names == [ALPHA, BETA]
    assert git.text("symbolic-ref", "--short", "HEAD") == f"series/{TAG}"
    assert "alpha_5 = 55  # ä" in (toy.checkout / ALPHA).read_text()


def test_second_apply_changes_nothing(toy: Toy) -> None:
    before, link = _ids(toy), toy.checkout.readlink()
    done = toy.apply()
    assert not done.changed
    assert (_ids(toy), toy.checkout.readlink()) == (before, link)


def test_another_machine_gets_the_same_commit_ids(toy: Toy) -> None:
    before = _ids(toy)
    (toy.checkout.resolve() / ALPHA).write_text("spoiled")
    assert toy.apply(discard=True).changed
    assert _ids(toy) == before


def test_git_am_by_hand_gives_the_same_tree(toy: Toy, tmp_path: Path) -> None:
    by_hand = tmp_path / "by-hand"
    subprocess.run(["git", "clone", "-q", toy.clone, by_hand], check=True)
    files = sorted(toy.project.patches.glob("*.patch"))
    identity = ["-c", "user.name=P", "-c", "user.email=p@q.org"]
    subprocess.run(["git", "-C", by_hand, *identity, "am", "-q", *files], check=True)
    tree = Git(by_hand).text("rev-parse", "HEAD^{tree}")
    assert tree == Git(toy.checkout.resolve()).text("rev-parse", "HEAD^{tree}")


def test_local_edits_are_refused_with_their_list(toy: Toy) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 1")
    (toy.checkout / "note.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"local edits: .*beta\.py, note\.txt"):
        toy.apply()
    assert (toy.checkout / "note.txt").read_text() == "mine"


def test_own_commits_are_refused_until_refreshed(toy: Toy) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 1")
    toy.commit_all("Mine")
    with pytest.raises(UsageError, match="make refresh"):
        toy.apply()


def test_foreign_folder_is_refused(toy: Toy) -> None:
    toy.checkout.unlink()
    toy.checkout.mkdir()
    with pytest.raises(UsageError, match="not a checkout made by"):
        toy.apply()


def test_wrong_target_is_refused_by_name(toy: Toy) -> None:
    text = (toy.project.configs / "upstream.yaml").read_text()
    wrong = "a" * 40
    found = toy.upstream.targets[ALPHA]
    (toy.project.configs / "upstream.yaml").write_text(text.replace(found, wrong))
    with pytest.raises(UsageError, match=f"{ALPHA} is {found}, expected {wrong}"):
        toy.apply(discard=True)


def test_a_hunk_with_an_offset_is_refused(toy: Toy) -> None:
    file = toy.project.patches / toy.series.patches[0].file
    text = file.read_text()
    assert "@@ -3,7 +3,7 @@" in text
    # git alone takes this hunk three lines away, and exits 0.
    file.write_text(text.replace("@@ -3,7 +3,7 @@", "@@ -6,7 +6,7 @@"))
    link = toy.checkout.readlink()
    with pytest.raises(PatchError, match=r"not at its place: .*offset -3 lines"):
        toy.apply(discard=True)
    assert toy.checkout.readlink() == link


def test_another_result_than_recorded_is_refused(toy: Toy) -> None:
    file = toy.project.patches / toy.series.patches[0].file
    file.write_text(file.read_text().replace("+alpha_5 = 55", "+alpha_5 = 56"))
    with pytest.raises(PatchError, match=r"alpha\.py is \w+ after the patch"):
        toy.apply(discard=True)


def test_a_patch_for_other_lines_does_not_apply(toy: Toy) -> None:
    file = toy.project.patches / toy.series.patches[1].file
    file.write_text(file.read_text().replace(" beta_9 = 9", " beta_9 = 8"))
    with pytest.raises(PatchError, match=r"does not apply: .*beta\.py"):
        toy.apply(discard=True)


def test_missing_patch_file_leaves_the_previous_state(toy: Toy) -> None:
    before = _ids(toy)
    (toy.project.patches / toy.series.patches[1].file).unlink()
    with pytest.raises(UsageError, match="no such file"):
        toy.apply(discard=True)
    assert _ids(toy) == before
    assert len(list((toy.project.build / ".trees").iterdir())) == 1


def test_hostile_git_configuration_changes_nothing(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _ids(toy)
    home = tmp_path / "hostile"
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    for name in ("applypatch-msg", "post-checkout", "reference-transaction"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(
        "[apply]\n whitespace = fix\n[diff]\n noprefix = true\n renames = copies\n"
        "[commit]\n gpgsign = true\n[gpg]\n program = /bin/false\n"
        f"[core]\n hooksPath = {hooks}\n autocrlf = true\n abbrev = 7\n"
        "[rerere]\n enabled = true\n autoupdate = true\n[format]\n signature = me\n"
        "[fetch]\n fsckObjects = true\n[i18n]\n commitEncoding = latin1\n"
    )
    environment = {
        "HOME": str(home),
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "apply.whitespace",
        "GIT_CONFIG_VALUE_0": "error",
        "GIT_AUTHOR_NAME": "Eve",
    }
    done = _harness(toy, "apply", "--discard", env=environment)
    assert done.returncode == 0, done.stderr
    assert _ids(toy) == before
    snapshot = toy.snapshot()
    (toy.checkout.resolve() / ALPHA).unlink()
    assert _harness(toy, "apply", "--discard", env=environment).returncode == 0
    assert _harness(toy, "refresh", env=environment).returncode == 0
    assert (_ids(toy), toy.snapshot()) == (before, snapshot)


def test_killed_apply_leaves_the_old_state_or_the_new_one(toy: Toy) -> None:
    before = _ids(toy)
    full = _seconds(lambda: _forked_apply(toy).join())
    for share in _ten_shares():
        _kill_after(_forked_apply(toy), share * full)
        assert _ids(toy) == before
        toy.apply(discard=True)
        assert _ids(toy) == before
        assert not (toy.checkout / "extra").exists()
    toy.apply()
    assert len(list((toy.project.build / ".trees").iterdir())) == 1


def test_killed_first_apply_is_no_obstacle(toy: Toy) -> None:
    before = _ids(toy)
    for share in _ten_shares():
        shutil.rmtree(toy.project.build)
        shutil.rmtree(cache_dir())
        _kill_after(_forked_apply(toy), share * 0.5)
        toy.apply()
        assert _ids(toy) == before


def _ten_shares() -> list[float]:
    """Ten moments spread over the whole run, each at random within its tenth."""
    return [(n + random.random()) / 10 for n in range(10)]


def _forked_apply(toy: Toy) -> multiprocessing.Process:
    if toy.checkout.exists():
        # An edit makes this apply build everything anew.
        (toy.checkout.resolve() / "extra").write_text("x")
    process = multiprocessing.get_context("fork").Process(
        target=toy.apply, kwargs={"discard": True}
    )
    process.start()
    return process


def _kill_after(process: multiprocessing.Process, seconds: float) -> None:
    process.join(seconds)
    process.kill()
    process.join()


def _seconds(work: Callable[[], None]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def _start(
    toy: Toy, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", "--root", str(toy.project.root)]
    return subprocess.Popen(
        [*command, *arguments],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _harness(
    toy: Toy, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    process = _start(toy, *arguments, env=env)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
