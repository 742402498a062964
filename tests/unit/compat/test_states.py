# SPDX-License-Identifier: Apache-2.0
"""Eight states of a release, with unique and with repeated context: sixteen cases.

The right verdict of each, and what git's own commands make of the same cases.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.compat.gittrees import GitReleases
from harness.compat.matrix import Request, judge_matrix
from harness.models.compat import Cell, Verdict
from tests.support.states import (
    BASE,
    LINE,
    PATH,
    STATES,
    Upstream,
    build,
    insert,
    source,
)

EXPECTED = {
    "pristine": Verdict.EXACT,
    "present": Verdict.MERGED,
    "edited": Verdict.MERGED_MODIFIED,
    "neighbour": Verdict.MERGED,
    "conflict": Verdict.CONFLICT,
    "renamed": Verdict.MOVED,
    "deleted": Verdict.MISSING,
    "partial": Verdict.PARTIAL,
}
NEEDS_NOTHING = {Verdict.MERGED, Verdict.MERGED_MODIFIED}
NEEDS_A_PERSON = {Verdict.CONFLICT, Verdict.MISSING}

GIT_IS_WRONG = {
    "am -3": {
        False: {"edited", "neighbour"},
        True: {"present", "edited", "neighbour", "conflict", "partial"},
    },
    "apply --check": {
        False: {"edited", "neighbour", "renamed", "partial"},
        True: {"present", "edited", "neighbour", "conflict", "renamed", "partial"},
    },
}
"""By command and by whether the context repeats. Where it does, ``am -3`` commits the
change in the wrong function; where it does not, it calls merged changes conflicts."""


@pytest.fixture(scope="module", params=[False, True], ids=["unique", "repeated"])
def repeats(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory, repeats: bool) -> Upstream:
    """One repository for all tests: they only read it, or add worktrees."""
    return build(tmp_path_factory.mktemp("states"), repeats=repeats)


@pytest.fixture(autouse=True)
def _no_remembered_verdicts(own_cache: Path) -> None:
    """Every verdict is reached anew."""


def judge(upstream: Upstream, series: Path, state: str) -> Cell:
    releases = GitReleases(str(upstream.path), prereleases=False)
    request = Request(series, tags=(STATES[state],), base=BASE)
    (release,) = judge_matrix(request, releases, print).result.releases
    (cell,) = release.verdicts.values()
    return cell


@pytest.mark.parametrize("state", EXPECTED)
def test_verdict_is_right(upstream: Upstream, state: str) -> None:
    series = upstream.two if state == "partial" else upstream.one
    cell = judge(upstream, series, state)
    assert cell.verdict is EXPECTED[state], cell


def test_far_changes_do_not_matter(upstream: Upstream) -> None:
    assert judge(upstream, upstream.one, "elsewhere").verdict is Verdict.APPLIES


@pytest.mark.parametrize("command", GIT_IS_WRONG)
def test_git_gets_these_wrong(
    upstream: Upstream, repeats: bool, tmp_path: Path, command: str
) -> None:
    outcome = {"am -3": am, "apply --check": apply_check}[command]
    wrong = {
        state
        for state, verdict in EXPECTED.items()
        if not is_right(outcome(upstream, state, tmp_path), verdict, repeats, state)
    }
    assert wrong == GIT_IS_WRONG[command][repeats]


def is_right(
    claim: tuple[str, str | None], verdict: Verdict, repeats: bool, state: str
) -> bool:
    """Whether git's claim, and the file it made, are what the state calls for."""
    said, made = claim
    if verdict in NEEDS_NOTHING:
        return said == "nothing to do"
    if verdict in NEEDS_A_PERSON:
        return said == "fails"
    return said == "applies" and made in (None, wanted(repeats, state))


def wanted(repeats: bool, state: str) -> str:
    text = insert(source(repeats=repeats), "target", LINE)
    if state == "partial":
        return insert(text, "second", LINE)
    return text


def am(upstream: Upstream, state: str, scratch: Path) -> tuple[str, str | None]:
    """What ``git am -3`` says, and the file it leaves."""
    tag = STATES[state]
    tree = scratch / f"am-{tag}"
    upstream.git.run("worktree", "add", "-q", "--detach", str(tree), tag)
    git = type(upstream.git)(tree, upstream.git.settings)
    (patch,) = (upstream.two if state == "partial" else upstream.one).glob("*.patch")
    done = git.run("am", "-3", "-q", str(patch), check=False)
    if done.status != 0:
        return "fails", None
    if git.text("rev-list", "--count", f"{tag}..HEAD") == "0":
        return "nothing to do", None
    if state == "renamed":
        return "applies", None
    return "applies", (tree / PATH).read_text()


def apply_check(
    upstream: Upstream, state: str, scratch: Path
) -> tuple[str, str | None]:
    """What ``git apply --check`` says, and what applying then makes of the file."""
    tag = STATES[state]
    tree = scratch / f"check-{tag}"
    upstream.git.run("worktree", "add", "-q", "--detach", str(tree), tag)
    git = type(upstream.git)(tree, upstream.git.settings)
    (patch,) = (upstream.two if state == "partial" else upstream.one).glob("*.patch")
    if git.run("apply", "--check", str(patch), check=False).status == 0:
        git.run("apply", str(patch))
        return "applies", (tree / PATH).read_text()
    if git.run("apply", "-R", "--check", str(patch), check=False).status == 0:
        return "nothing to do", None
    return "fails", None
