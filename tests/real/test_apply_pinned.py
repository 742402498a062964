# SPDX-License-Identifier: Apache-2.0
"""The real series on the real release, from the package index."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.git import Git
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.series import Series
from harness.paths import Project

pytestmark = [pytest.mark.network, pytest.mark.slow]


def _start(project: Project, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", "--root", str(project.root), *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _apply(project: Project) -> list[str]:
    process = _start(project, "apply", "--source", "sdist")
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return Git(project.checkout.resolve()).text("rev-list", "HEAD").splitlines()


def test_five_commits_touch_exactly_the_six_files(pinned_project: Project) -> None:
    commits = _apply(pinned_project)
    git = Git(pinned_project.checkout.resolve())
    assert len(commits) == 6
    changed = git.text("diff", "--name-only", commits[-1], "HEAD").splitlines()
    upstream = load(pinned_project.configs / "upstream.yaml", Upstream)
    assert changed == sorted(upstream.targets)
    assert git.text("status", "--porcelain") == ""
    assert _apply(pinned_project) == commits


def test_git_am_by_hand_gives_the_same_tree(
    pinned_project: Project, tmp_path: Path
) -> None:
    commits = _apply(pinned_project)
    by_hand = tmp_path / "by-hand"
    clone = ["git", "clone", "-q", str(pinned_project.checkout.resolve()), by_hand]
    subprocess.run(clone, check=True)
    git = ["git", "-C", str(by_hand), "-c", "user.name=P", "-c", "user.email=p@q.org"]
    subprocess.run([*git, "checkout", "-q", commits[-1]], check=True)
    series = load(pinned_project.patches / "series.yaml", Series)
    files = [str(pinned_project.patches / p.file) for p in series.patches]
    subprocess.run([*git, "am", "-q", *files], check=True)
    trees = {
        Git(folder).text("rev-parse", "HEAD^{tree}")
        for folder in (by_hand, pinned_project.checkout.resolve())
    }
    assert len(trees) == 1


def test_killed_at_ten_random_moments(pinned_project: Project) -> None:
    started = time.monotonic()
    commits = _apply(pinned_project)
    seconds = max(1.0, time.monotonic() - started)
    for number in range(10):
        # An edit that is to be discarded makes apply build everything anew.
        (pinned_project.checkout.resolve() / "README.md").write_text("spoiled")
        words = ("apply", "--source", "sdist", "--discard")
        process = _start(pinned_project, *words)
        time.sleep((number + random.random()) / 10 * min(seconds, 6.0))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    process = _start(pinned_project, "apply", "--source", "sdist", "--discard")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert _apply(pinned_project) == commits
    assert len(list((pinned_project.build / ".trees").iterdir())) == 1
