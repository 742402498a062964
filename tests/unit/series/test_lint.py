# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.git import Git
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.series import Series
from harness.paths import Project
from harness.series.canonical import lint_exports
from harness.series.lint import Problem, lint_series
from harness.series.readme import README, render
from tests.support.toy import Toy


def _lint(toy: Toy) -> list[Problem]:
    return lint_series(toy.project.patches, toy.upstream, toy.series)


def _spoil(toy: Toy, change: Callable[[bytes], bytes]) -> Path:
    file = toy.project.patches / toy.series.patches[0].file
    before = file.read_bytes()
    after = change(before)
    assert after != before
    file.write_bytes(after)
    return file


def test_the_toy_series_is_clean(toy: Toy) -> None:
    assert _lint(toy) == []


def test_the_series_of_this_project_is_clean(project: Project) -> None:
    upstream = load(project.configs / "upstream.yaml", Upstream)
    series = load(project.patches / "series.yaml", Series)
    assert lint_series(project.patches, upstream, series) == []


def test_the_readme_of_this_series_is_the_generated_one(project: Project) -> None:
    upstream = load(project.configs / "upstream.yaml", Upstream)
    series = load(project.patches / "series.yaml", Series)
    text = (project.patches / README).read_text(encoding="utf-8")
    assert text == render(project, upstream, series)


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        (b"From 0000", b"From 0001", 1, "zero From hash"),
        (b"From: Toy Series", b"From: Some One", 2, "author is not Toy Series"),
        (b"[PATCH] [Bugfix]", b"[PATCH 1/2] [Bugfix]", 4, "plain [PATCH]"),
        (b"[Bugfix][Core] ", b"[Fix] ", 4, "prefixes that vLLM reviews"),
        (b"Change alpha", b"Change alpha " + b"x" * 60, 4, "longer than 72"),
        (b"Test Plan: run", b"Plan: run", 4, "no section 'Test Plan:'"),
        (b"\nTest Result", b"\nSigned-off-by: A <a@b.c>\nTest Result", 13, "sign-off"),
        (b"Base: v1.2.3", b"Base: v1.2.4", 15, "metadata block"),
        (b"@@ -3,7 +3,7 @@", b"@@ -3,7 +3,8 @@", 27, "promises 7 old and 8 new"),
        (b" alpha_2 = 2\n", b"", 27, "promises 7 old and 7 new"),
        (b" alpha_2 = 2\n", b" alpha_2 = 2\r\n", 28, "carriage return"),
        (b"index 7b6f7a6ebe3f30fac1839b1bec0dd671", b"index 7b6f7a6", 24, "full"),
        (b"\nindex ", b"\nold mode 100644\nnew mode 100755\nindex ", 24, "plain edit"),
        (b"alpha.py", b"gamma.py", 23, "touches vllm/gamma.py, which is not declared"),
    ],
)  # fmt: skip
def test_each_problem_is_named_by_file_and_line(
    toy: Toy, old: bytes, new: bytes, line: int, text: str
) -> None:
    file = _spoil(toy, lambda raw: raw.replace(old, new))
    found = [p for p in _lint(toy) if text in p.text]
    assert [(p.file, p.line) for p in found[:1]] == [(file.name, line)], _lint(toy)


def test_a_patch_that_is_not_listed(toy: Toy) -> None:
    (toy.project.patches / "0009-stray.patch").write_text("x")
    assert "0009-stray.patch:1: is not listed in series.yaml" in map(str, _lint(toy))


def test_a_patch_that_does_not_exist(toy: Toy) -> None:
    file = toy.project.patches / toy.series.patches[0].file
    file.unlink()
    assert f"series.yaml:1: {file.name} does not exist" in map(str, _lint(toy))


def test_a_patch_without_a_description(toy: Toy) -> None:
    file = toy.project.patches / "series.yaml"
    undescribed = "Describe here, for the reviewer,"
    file.write_text(file.read_text().replace("A toy that shows", undescribed, 1))
    assert "series.yaml:1: 0001 is not described" in map(str, _lint(toy))


def test_a_pin_that_lacks_a_target(toy: Toy) -> None:
    file = toy.project.configs / "upstream.yaml"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if "vllm/beta.py" not in line))
    assert any("vllm/beta.py: the pin says None" in p.text for p in _lint(toy))


def test_not_canonical_is_named_with_its_line(toy: Toy) -> None:
    file = _spoil(
        toy, lambda raw: raw.replace(b" vllm/alpha.py | 2 +-", b" vllm/alpha.py | 2 ++")
    )
    git = Git(toy.checkout.resolve())
    (problem,) = lint_exports(
        toy.project, toy.upstream, toy.series, git, toy.commit, style=False
    )
    assert (problem.file, problem.line) == (file.name, 20)
    assert "canonical" in problem.text


def test_a_readme_out_of_date(toy: Toy) -> None:
    (toy.project.patches / README).write_text("old")
    git = Git(toy.checkout.resolve())
    (problem,) = lint_exports(
        toy.project, toy.upstream, toy.series, git, toy.commit, style=False
    )
    assert problem.file == README
