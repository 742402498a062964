# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness import cli
from harness.compat.carried import read_series
from harness.errors import ExitCode, PatchError, UsageError
from harness.git import Git
from harness.models.base import load
from harness.models.compat import Verdict
from harness.models.pin import Upstream
from harness.models.rebase import Fate, Rebased
from harness.paths import Project
from harness.workflows.rebase.carry import Rebase, workspace_for
from harness.workflows.rebase.result import finish
from tests.support.toy import ALPHA, BETA, TAG, Toy

CLEAN, ABSORBED, CLASH = "v2.1.0", "v2.2.0", "v2.3.0"


@pytest.fixture
def upstream(toy: Toy, tmp_path: Path) -> Toy:
    """The toy's upstream, with three more releases."""
    clone = tmp_path / "releases"
    shutil.copytree(toy.clone, clone)
    toy = replace(toy, clone=clone)
    release(toy, CLEAN, {ALPHA: ("alpha_15 = 15", "alpha_15 = 1500")})
    release(toy, ABSORBED, {BETA: ("beta_10 = 10\n", ""), ALPHA: ("alpha_0", "omega")})
    release(toy, CLASH, {ALPHA: ("alpha_5 = 5\n", "alpha_5 = 555\n")})
    return toy


def release(toy: Toy, tag: str, edits: dict[str, tuple[str, str]]) -> None:
    git = Git(toy.clone, {"user.name": "Up", "user.email": "up@stream.org"})
    git.run("checkout", "-q", "--detach", TAG)
    for path, (old, new) in edits.items():
        file = toy.clone / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
    git.run("commit", "-qam", f"Release {tag}")
    git.run("tag", tag)


def start(toy: Toy, tag: str) -> tuple[Rebase, Project]:
    said: list[str] = []
    rebase = Rebase(
        toy.project,
        toy.upstream,
        toy.series,
        workspace_for(toy.project, tag),
        said.append,
    )
    return rebase, Project(toy.project.root, tag)


def fates(project: Project) -> list[tuple[Fate, Verdict]]:
    done = load(project.patches / "rebase.json", Rebased)
    return [(step.fate, step.cell.verdict) for step in done.steps]


def test_clean_patches_are_exported_with_their_new_base(upstream: Toy) -> None:
    rebase, project = start(upstream, CLEAN)
    finish(rebase, rebase.start(CLEAN, str(upstream.clone)))
    assert fates(project) == [
        (Fate.CARRIED, Verdict.APPLIES),
        (Fate.CARRIED, Verdict.EXACT),
    ]
    pin = load(project.pin, Upstream)
    assert pin.tag == CLEAN
    assert pin.commit == Git(upstream.clone).text("rev-parse", CLEAN)
    text = next(project.patches.glob("0001-*.patch")).read_text()
    assert f"Base: {CLEAN} {pin.commit}" in text


def test_the_new_set_applies_to_its_release(upstream: Toy, tmp_path: Path) -> None:
    rebase, project = start(upstream, CLEAN)
    finish(rebase, rebase.start(CLEAN, str(upstream.clone)))
    arguments = ["--root", str(upstream.project.root), "apply", "--tag", CLEAN]
    code = cli.main([*arguments, "--source", str(upstream.clone)])
    assert code == ExitCode.PASS
    made = (project.checkout / ALPHA).read_text()
    assert "alpha_5 = 55  # ä" in made
    assert "alpha_15 = 1500" in made


def test_absorbed_patch_is_dropped_with_evidence(upstream: Toy) -> None:
    rebase, project = start(upstream, ABSORBED)
    finish(rebase, rebase.start(ABSORBED, str(upstream.clone)))
    assert fates(project)[1] == (Fate.DROPPED, Verdict.MERGED)
    assert [p.name for p in read_series(project.patches, ()).patches] == ["0001"]
    report = (project.patches / "rebase.md").read_text()
    assert "every change is already there" in report
    assert "2:  " in report, "the range-diff shows that the second patch is gone"


def test_conflict_waits_and_continues(upstream: Toy) -> None:
    rebase, project = start(upstream, CLASH)
    with pytest.raises(PatchError, match=r"0001: CONFLICT .*CONTINUE=1"):
        rebase.start(CLASH, str(upstream.clone))
    assert not project.patches.exists()
    file = rebase.workspace.path / ALPHA
    text = file.read_text()
    assert "<<<<<<< release" in text
    assert "alpha_5 = 555" in text
    assert "alpha_5 = 55  # ä" in text
    with pytest.raises(UsageError, match=r"alpha\.py:\d+: a conflict marker"):
        rebase.resume()
    before, _, rest = text.partition("<<<<<<< release\n")
    after = rest.partition(">>>>>>> patch\n")[2]
    file.write_text(f"{before}alpha_5 = 556\n{after}")
    finish(rebase, rebase.resume())
    assert fates(project)[0] == (Fate.RESOLVED, Verdict.APPLIES)
    assert fates(project)[1][0] is Fate.CARRIED
    patch = next(project.patches.glob("0001-*.patch")).read_text()
    assert "-alpha_5 = 555\n+alpha_5 = 556\n" in patch


def test_conflict_resolved_to_nothing_is_dropped(upstream: Toy) -> None:
    rebase, project = start(upstream, CLASH)
    with pytest.raises(PatchError):
        rebase.start(CLASH, str(upstream.clone))
    Git(rebase.workspace.path).run("checkout", "-q", "--", ALPHA)
    finish(rebase, rebase.resume())
    assert fates(project)[0] == (Fate.DROPPED, Verdict.NOT_AFFECTED)


def test_waiting_rebase_is_not_thrown_away(upstream: Toy) -> None:
    arguments = ["--root", str(upstream.project.root), "rebase", CLASH]
    arguments += ["--source", str(upstream.clone)]
    assert cli.main(arguments) == ExitCode.REGRESSED
    assert cli.main(arguments) == ExitCode.USAGE


def test_continue_without_a_rebase_is_refused(upstream: Toy) -> None:
    rebase, _ = start(upstream, CLASH)
    with pytest.raises(UsageError, match="no rebase waits"):
        rebase.resume()


def test_unknown_release_and_the_pin_itself_are_refused(upstream: Toy) -> None:
    rebase, _ = start(upstream, "v9.9.9")
    with pytest.raises(UsageError, match="no such tag"):
        rebase.start("v9.9.9", str(upstream.clone))
    with pytest.raises(UsageError, match="made for"):
        rebase.start(TAG, str(upstream.clone))
