# SPDX-License-Identifier: Apache-2.0
"""Series as people keep them: mails, plain diffs, quilt, other prefixes, gzip."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from harness.commands import compat
from harness.compat.gittrees import GitReleases
from harness.compat.matrix import Request, judge_matrix
from harness.errors import ExitCode, UsageError
from harness.models.compat import Compatibility, Verdict
from tests.support.states import BASE, PATH, STATES, Upstream, build

PRISTINE, PRESENT = STATES["pristine"], STATES["present"]


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    return build(tmp_path_factory.mktemp("forms"), repeats=True, rules=False)


@pytest.fixture
def diff(upstream: Upstream) -> str:
    """The one-line patch as ``git diff --full-index`` writes it: no mail."""
    (patch,) = upstream.one.glob("*.patch")
    text = patch.read_text()
    return text[text.index("diff --git") : text.rindex("-- \n")]


@pytest.fixture
def series(tmp_path: Path, own_cache: Path) -> Path:
    folder = tmp_path / "series"
    folder.mkdir()
    return folder


def judge(
    upstream: Upstream, series: Path, *tags: str, base: str | None = BASE
) -> Compatibility:
    releases = GitReleases(str(upstream.path), prereleases=False)
    request = Request(series, tags=tags or (PRISTINE, PRESENT), base=base)
    return judge_matrix(request, releases, print).result


def verdicts(result: Compatibility) -> list[Verdict]:
    return [c.verdict for r in result.releases for c in r.verdicts.values()]


EXPECTED = [Verdict.EXACT, Verdict.MERGED]


@pytest.mark.parametrize("index", ["full", "abbreviated", "none"])
def test_plain_diff(upstream: Upstream, series: Path, diff: str, index: str) -> None:
    if index == "abbreviated":
        diff = re.sub(r"index (\w{9})\w*\.\.(\w{9})\w*", r"index \1..\2", diff)
    if index == "none":
        diff = re.sub(r"index .*\n", "", diff)
    (series / "x.diff").write_text(diff)
    assert verdicts(judge(upstream, series)) == EXPECTED


def test_diff_without_git_header(upstream: Upstream, series: Path, diff: str) -> None:
    (series / "x.patch").write_text(f"Why.\n\n{diff[diff.index('--- a/') :]}")
    result = judge(upstream, series)
    assert verdicts(result) == EXPECTED
    assert result.patches["x.patch"].title == "Why."


@pytest.mark.parametrize(("prefix", "level"), [("", 0), ("a/", 1), ("a/src/", 2)])
def test_strip_level_is_found_and_named(
    upstream: Upstream, series: Path, diff: str, prefix: str, level: int
) -> None:
    text = diff.replace(f"a/{PATH}", f"{prefix}{PATH}")
    text = text.replace(f"b/{PATH}", f"{prefix.replace('a/', 'b/')}{PATH}")
    (series / "x.patch").write_text(text)
    result = judge(upstream, series)
    assert result.patches["x.patch"].strip == level
    assert verdicts(result) == EXPECTED


def test_gzip(upstream: Upstream, series: Path, diff: str) -> None:
    (series / "x.patch.gz").write_bytes(gzip.compress(diff.encode()))
    assert verdicts(judge(upstream, series)) == EXPECTED


def test_quilt_order_strip_and_comments(
    upstream: Upstream, series: Path, diff: str
) -> None:
    (series / "b-first.patch").write_text(diff.replace("a/pkg", "x/y/pkg"))
    second = diff.replace("checked(three)", "checked(two)")
    (series / "a-second.patch").write_text(second)
    (series / "unlisted.patch").write_text(diff)
    text = "# ours\nb-first.patch -p2  # why\n\na-second.patch\n"
    (series / "series").write_text(text)
    result = judge(upstream, series, PRISTINE)
    assert list(result.patches) == ["b-first.patch", "a-second.patch"]
    assert result.patches["b-first.patch"].strip == 2
    assert verdicts(result)[0] is Verdict.EXACT


def test_quilt_reversed_patch_is_refused(series: Path, upstream: Upstream) -> None:
    (series / "series").write_text("one.patch\nx.patch -p1 -R\n")
    with pytest.raises(UsageError, match=r"series:2: option -R"):
        judge(upstream, series)


BROKEN = {
    "short": "@@ -1,3 +1,4 @@\n a\n+b\n",
    "tag": "@@ -1,2 +1,2 @@\n a\n*b\n",
    "none": "no diff at all\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_unreadable_patch_is_named_with_its_line_and_others_are_judged(
    upstream: Upstream, series: Path, diff: str, kind: str
) -> None:
    head = "" if kind == "none" else f"--- a/{PATH}\n+++ b/{PATH}\n"
    (series / "bad.patch").write_text(head + BROKEN[kind])
    (series / "good.patch").write_text(diff)
    result = judge(upstream, series, PRISTINE)
    cells = result.releases[0].verdicts
    assert cells["bad.patch"].verdict is Verdict.UNKNOWN
    line = {"short": 3, "tag": 5, "none": 1}[kind]
    assert f"bad.patch:{line}: " in cells["bad.patch"].detail
    assert cells["good.patch"].verdict is Verdict.EXACT
    assert compat._exit_code(result) is ExitCode.USAGE


def test_base_is_found_when_nobody_names_it(
    upstream: Upstream, series: Path, diff: str
) -> None:
    (series / "x.patch").write_text(diff)
    tags = (STATES["elsewhere"], STATES["conflict"], PRISTINE)
    result = judge(upstream, series, *tags, base=None)
    assert result.base == PRISTINE
    assert verdicts(result) == [Verdict.APPLIES, Verdict.CONFLICT, Verdict.EXACT]


def test_without_any_base_text_alone_decides(
    upstream: Upstream, series: Path, diff: str
) -> None:
    """The context repeats, so no place can be told to be the right one."""
    text = re.sub(r"index .*\n", "", diff).replace("@@ -", "@@ -9")
    (series / "x.patch").write_text(text)
    result = judge(upstream, series, PRISTINE, base=None)
    assert result.base is None
    assert verdicts(result) == [Verdict.AMBIGUOUS]


def test_crlf_patch_file(upstream: Upstream, series: Path, diff: str) -> None:
    (series / "x.patch").write_bytes(diff.replace("\n", "\r\n").encode())
    assert verdicts(judge(upstream, series)) == EXPECTED


def test_new_deleted_and_unlike_files(upstream: Upstream, series: Path) -> None:
    new = "--- /dev/null\n+++ b/pkg/new.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    gone = "--- a/pkg/other.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-OTHER = 1\n"
    (series / "1-new.patch").write_text(new)
    (series / "2-gone.patch").write_text(gone)
    result = judge(upstream, series, PRISTINE)
    assert verdicts(result) == [Verdict.EXACT, Verdict.EXACT]


def test_later_patch_of_a_failed_one_is_blocked(
    upstream: Upstream, series: Path, diff: str
) -> None:
    """Its own lines are those that the first one adds."""
    second = diff.replace("+    checked(three)", " PLACE\n+    twice(three)")
    second = second.replace("PLACE", "    checked(three)")
    second = re.sub(r"@@ -(\d+),6 \+(\d+),7 @@", r"@@ -\1,7 +\2,8 @@", second)
    second = re.sub(r"index .*\n", "", second)
    (series / "1.patch").write_text(diff)
    (series / "2.patch").write_text(second)
    result = judge(upstream, series, STATES["conflict"], PRISTINE)
    assert verdicts(result) == [
        Verdict.CONFLICT,
        Verdict.BLOCKED,
        Verdict.EXACT,
        Verdict.EXACT,
    ]


def test_missing_series_is_one_line(tmp_path: Path, upstream: Upstream) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        judge(upstream, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no series"):
        judge(upstream, tmp_path / "empty")
