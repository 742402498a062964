# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness import cli
from harness.compat.merging import merge, news, read_results
from harness.errors import ExitCode, UsageError
from harness.models.compat import Cell, Compatibility, PatchInfo, Release, Verdict
from harness.paths import default_root


def result(*cells: tuple[str, Verdict]) -> Compatibility:
    releases = [
        Release(
            tag=tag,
            commit="0123456",
            source="git",
            verdicts={"0001": Cell(verdict=verdict, signal="merge")},
        )
        for tag, verdict in cells
    ]
    info = PatchInfo(title="Mend it", targets=("a.py",))
    return Compatibility(base="v1.0.0", patches={"0001": info}, releases=(*releases,))


def named(*results: Compatibility) -> list[tuple[Path, Compatibility]]:
    return [(Path(f"job-{n}"), one) for n, one in enumerate(results)]


def test_releases_come_in_the_order_of_their_versions() -> None:
    one = result(("v1.10.0", Verdict.CONFLICT))
    two = result(("v1.9.0", Verdict.APPLIES), ("v1.0.0", Verdict.EXACT))
    tags = [r.tag for r in merge(named(one, two)).releases]
    assert tags == ["v1.0.0", "v1.9.0", "v1.10.0"]


def test_jobs_that_disagree_are_an_error() -> None:
    one, two = result(("v2.0.0", Verdict.MERGED)), result(("v2.0.0", Verdict.CONFLICT))
    with pytest.raises(UsageError, match=r"job-1: has other verdicts on v2\.0\.0"):
        merge(named(one, two))


def test_a_release_that_could_not_be_read_gives_way_to_one_that_was() -> None:
    read = result(("v2.0.0", Verdict.MERGED))
    (release,) = read.releases
    failed = release.model_copy(update={"verdicts": {}, "failure": "no network"})
    unread = read.model_copy(update={"releases": (failed,)})
    assert merge(named(unread, read)) == merge(named(read, unread)) == read


def test_results_of_another_series_are_refused() -> None:
    one = result(("v2.0.0", Verdict.MERGED))
    with pytest.raises(UsageError, match="another series"):
        merge(named(one, one.model_copy(update={"base": "v0.9.0"})))


def test_only_changes_are_news() -> None:
    known = result(("v1.0.0", Verdict.EXACT), ("v1.1.0", Verdict.CONFLICT))
    same = result(("v1.2.0", Verdict.CONFLICT), ("v1.3.0", Verdict.MERGED_MODIFIED))
    (only,) = news(same, known)
    assert (only.tag, only.title) == (
        "v1.3.0",
        "compat: 0001 is MERGED-MODIFIED upstream",
    )
    assert not news(known, known)


def test_no_results_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no compat\.json"):
        read_results([tmp_path])


GH = """#!/bin/bash
echo "$@" >> "{log}"
case "$1 $2" in
  "issue list")
    echo '[{{"number": 7, "title": "compat: 0001 is CONFLICT upstream"}}]' ;;
  "issue view") echo '{{"body": "`v1.1.0`", "comments": []}}' ;;
  "issue create") echo "https://example.org/issues/8" ;;
esac
"""


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gh that knows one issue and writes down what it is asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "gh.log"
    (folder / "gh").write_text(GH.format(log=log))
    (folder / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


@pytest.mark.parametrize(
    ("tag", "verdict", "expected"),
    [
        ("v9.1.0", Verdict.MERGED, "issue create --title compat: 0001 is MERGED"),
        ("v9.1.0", Verdict.CONFLICT, "issue comment 7"),
        ("v1.1.0", Verdict.CONFLICT, None),
        ("v9.1.0", Verdict.APPLIES, None),
    ],
)
def test_issue_is_opened_updated_or_left(
    gh: Path, tmp_path: Path, toy_root: Path, tag: str, verdict: Verdict,
    expected: str | None,
) -> None:  # fmt: skip
    jobs = tmp_path / "jobs" / tag
    jobs.mkdir(parents=True)
    (jobs / "compat.json").write_text(result((tag, verdict)).model_dump_json())
    arguments = ["--root", str(toy_root), "ci-notify", str(tmp_path / "jobs")]
    assert cli.main(arguments) == ExitCode.PASS
    asked = gh.read_text() if gh.exists() else ""
    if expected:
        assert expected in asked
    else:
        assert "create" not in asked
        assert "comment 7" not in asked


@pytest.fixture
def toy_root(tmp_path: Path) -> Path:
    """A project whose results hold nothing yet."""
    root = tmp_path / "root"
    shutil.copytree(default_root() / "configs", root / "configs")
    shutil.copytree(default_root() / "patches", root / "patches")
    return root
