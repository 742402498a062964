# SPDX-License-Identifier: Apache-2.0
"""The commands on the patch half, as a user sees them: output and exit code."""

from __future__ import annotations

import json

import pytest

from harness import cli
from harness.errors import ExitCode
from tests.support.toy import ALPHA, BETA, Toy

Capture = pytest.CaptureFixture[str]


def _run(toy: Toy, *words: str) -> int:
    return cli.main(["--root", str(toy.project.root), *words])


def test_apply_says_what_is_there_already(toy: Toy, capsys: Capture) -> None:
    assert _run(toy, "apply") == ExitCode.PASS
    out = capsys.readouterr().out
    assert out.startswith("already applied: v1.2.3")
    assert "0001-Bugfix-Core-Change-alpha.patch" in out


def test_apply_reports_as_json(toy: Toy, capsys: Capture) -> None:
    assert _run(toy, "--json", "apply") == ExitCode.PASS
    report = json.loads(capsys.readouterr().out)
    assert report["changed"] is False
    assert set(report["commits"]) == {"0001", "0002"}


def test_local_edits_are_bad_usage_in_one_line(toy: Toy, capsys: Capture) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 1")
    assert _run(toy, "apply") == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "vllm/beta.py" in error
    assert "make refresh" in error


def test_status_names_drift_and_edits(toy: Toy, capsys: Capture) -> None:
    assert _run(toy, "status") == ExitCode.PASS
    assert "drift" not in capsys.readouterr().out
    toy.edit(ALPHA, "alpha_0 = 0", "alpha_0 = 1")
    toy.commit_all("Mine")
    (toy.checkout / "extra.txt").write_text("x")
    assert _run(toy, "status") == ExitCode.PASS
    out = capsys.readouterr().out
    assert "edited   extra.txt" in out
    assert "drift  vllm/alpha.py is" in out


def test_status_before_anything_is_applied(toy: Toy, capsys: Capture) -> None:
    assert _run(toy, "clean") == ExitCode.PASS
    assert not toy.project.build.exists()
    assert _run(toy, "status") == ExitCode.PASS
    assert "applied  no (make apply)" in capsys.readouterr().out


def test_clean_keeps_unsaved_work(toy: Toy, capsys: Capture) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 1")
    assert _run(toy, "clean") == ExitCode.USAGE
    assert toy.checkout.exists()
    assert _run(toy, "clean", "--discard") == ExitCode.PASS


def test_refresh_lists_what_it_wrote(toy: Toy, capsys: Capture) -> None:
    toy.edit(BETA, "beta_0 = 0", "beta_0 = 1")
    toy.commit_all("Drop a beta", amend=True)
    assert _run(toy, "refresh") == ExitCode.PASS
    out = capsys.readouterr().out
    assert "written: 0002-Bugfix-Core-Drop-a-beta.patch" in out
    assert "unchanged: 0001-Bugfix-Core-Change-alpha.patch" in out
    assert _run(toy, "apply") == ExitCode.PASS


def test_refresh_without_a_checkout(toy: Toy, capsys: Capture) -> None:
    _run(toy, "clean")
    assert _run(toy, "refresh") == ExitCode.USAGE
    assert "nothing is applied" in capsys.readouterr().err


def test_lint_ends_with_1_and_names_file_and_line(toy: Toy, capsys: Capture) -> None:
    file = toy.project.patches / toy.series.patches[0].file
    file.write_bytes(file.read_bytes().replace(b"\n@@ -3,7", b"\n@@ -3,8"))
    assert _run(toy, "lint") == ExitCode.REGRESSED
    assert f"patches/{file.name}:27: hunk header" in capsys.readouterr().out


def test_submit_wants_a_person(toy: Toy, capsys: Capture) -> None:
    assert _run(toy, "submit", "--signoff", "") == ExitCode.USAGE
    assert 'make submit SIGNOFF="Name <mail>"' in capsys.readouterr().err
    assert _run(toy, "submit", "--signoff", "Jane <jane@doe.org>") == ExitCode.PASS
    assert list((toy.project.build / "submission").glob("*.patch"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: v1.2.3\npatches: [\n", "series.yaml:3: not readable"),
        ("base: v1\npatches: []\n", "base: String should match pattern"),
        ("base: v1.2.3\npatches: []\nextra: 1\n", "extra: Extra inputs"),
        ("base: v1.2.3\nbase: v1.2.3\npatches: []\n", "not readable"),
    ],
)
def test_a_malformed_series_is_bad_input(
    toy: Toy, capsys: Capture, text: str, message: str
) -> None:
    (toy.project.patches / "series.yaml").write_text(text)
    assert _run(toy, "apply") == ExitCode.USAGE
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_unknown_command_or_option_is_bad_usage(toy: Toy, capsys: Capture) -> None:
    assert _run(toy, "aply") == ExitCode.USAGE
    assert _run(toy, "apply", "--nonsense") == ExitCode.USAGE
    assert "Traceback" not in capsys.readouterr().err
