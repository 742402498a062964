# SPDX-License-Identifier: Apache-2.0
"""Faults put into a copy of this project's series, as a maintainer would: by an edit
of the applied tree and ``refresh``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from harness.errors import ExitCode
from harness.git import Git
from harness.paths import DATA_VARIABLE, Project, default_root
from harness.series.checkout import require_state


def run_harness(project: Project, *words: str) -> int:
    """The exit code of ``harness``; it finds the data that this project finds."""
    data = Project(default_root()).data
    known = {DATA_VARIABLE: str(data)} if (data / "gsm8k").is_dir() else {}
    command = [sys.executable, "-m", "harness", "--root", str(project.root), *words]
    return subprocess.run(command, check=False, env={**os.environ, **known}).returncode


def restore_patches(project: Project) -> None:
    """The series as this project has it."""
    shutil.rmtree(project.patches)
    shutil.copytree(Project(default_root()).patches, project.patches)


def put_in(project: Project, number: str, file: str, old: str, new: str) -> None:
    """Apply the series, and write it with ``old``, which ``file`` must hold once,
    replaced by ``new`` in patch ``number``."""
    assert run_harness(project, "apply", "--source", "sdist") == ExitCode.PASS
    state = require_state(project)
    tree = project.checkout.resolve()
    text = (tree / file).read_text()
    assert text.count(old) == 1, f"{old!r} is not in {file} once"
    (tree / file).write_text(text.replace(old, new))
    who = {"user.name": "n", "user.email": "e@f.org", "sequence.editor": "true"}
    git = Git(tree, who)
    git.run("commit", "-qa", f"--fixup={state.commits[number]}")
    git.run("rebase", "-q", "-i", "--autosquash", state.base)
    assert run_harness(project, "refresh") == ExitCode.PASS
