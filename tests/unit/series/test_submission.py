# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ExitCode, UsageError
from harness.git import Git
from harness.models.pin import Identity
from harness.series.submission import Submission, parse_signoff, write_submissions
from tests.support.toy import Toy

JANE = Identity(name="Jané Doe", email="jane@doe.org")


@pytest.mark.parametrize(
    "value",
    ["", "Jane", "jane@doe.org", "Jane <jane>", "Jane <jane@x.invalid>", "<j@d.org>"],
)
def test_no_person_no_submission(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_signoff(value)
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_person_is_read() -> None:
    assert parse_signoff("Jané Doe <jane@doe.org>") == JANE


@pytest.fixture
def submissions(toy: Toy, tmp_path: Path) -> tuple[Submission, ...]:
    return write_submissions(
        Git(toy.checkout.resolve()),
        toy.commit,
        toy.series.patches,
        toy.upstream,
        toy.project.patches,
        JANE,
        tmp_path / "out",
    )


def test_copies_are_signed_and_still_apply(
    submissions: tuple[Submission, ...], toy: Toy, tmp_path: Path
) -> None:
    clone = tmp_path / "upstream"
    Git(tmp_path).run("clone", "-q", str(toy.clone), str(clone))
    git = Git(clone, {"user.name": "n", "user.email": "e@f.org"})
    git.run("am", "-q", "--keep-non-patch", *(str(s.patch) for s in submissions))
    message = git.text("show", "-s", "--format=%an <%ae>%n%B", "HEAD")
    assert message.startswith("Jané Doe <jane@doe.org>\n[Bugfix][Core] Drop a beta")
    assert message.rstrip().endswith("Signed-off-by: Jané Doe <jane@doe.org>")


def test_the_text_has_what_vllm_asks_for(submissions: tuple[Submission, ...]) -> None:
    text = submissions[0].text.read_text(encoding="utf-8")
    for heading in ("Purpose", "Test Plan", "Test Result", "AI assistance"):
        assert f"## {heading}\n\n" in text
    assert "to be tried." in text
    assert 'gh pr list --state open --search "vllm/alpha.py in:body"' in text


def test_the_series_itself_stays_unsigned(
    submissions: tuple[Submission, ...], toy: Toy
) -> None:
    assert not any(b"Signed-off-by" in raw for raw in toy.snapshot().values())
