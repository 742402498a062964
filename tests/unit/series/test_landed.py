# SPDX-License-Identifier: Apache-2.0
"""What is said of files that somebody else has patched."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import UsageError
from harness.files import blob_id
from harness.models.base import load
from harness.models.series import Series, Target
from harness.paths import Project, default_root
from harness.series.landed import Landing, landed

FIRST, SECOND = "vllm/first.py", "vllm/second.py"


def target(path: str, before: str, after: str) -> Target:
    return Target(
        path=path, before=blob_id(before.encode()), after=blob_id(after.encode())
    )


@pytest.fixture
def series() -> Series:
    """Of three patches: two change the first file, one the second."""
    pinned = load(Project(default_root()).patches / "series.yaml", Series)
    targets = [
        target(FIRST, "a", "b"),
        target(SECOND, "x", "y"),
        target(FIRST, "b", "c"),
    ]
    entries = [
        pinned.patches[0].model_copy(
            update={"number": f"000{n}", "targets": (one,), "requires": ()}
        )
        for n, one in enumerate(targets, 1)
    ]
    return pinned.model_copy(update={"patches": tuple(entries)})


def put(folder: Path, first: str | None, second: str | None) -> Path:
    (folder / "vllm").mkdir()
    for path, content in ((FIRST, first), (SECOND, second)):
        if content is not None:
            (folder / path).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("c", "y", "landed, landed, landed"),
        ("b", "y", "landed, landed, not applied"),
        ("a", "x", "not applied, not applied, not applied"),
        ("c ", "y", "unknown, landed, unknown"),
        ("c", None, "landed, missing, landed"),
    ],
)
def test_by_content(
    series: Series, tmp_path: Path, first: str, second: str | None, wanted: str
) -> None:
    found = landed(series, put(tmp_path, first, second))
    assert ", ".join(one.landing for one in found) == wanted


def test_a_folder_without_vllm(series: Series, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no vllm/"):
        landed(series, tmp_path)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unpatched, empty and named-wrong folder, by the project's own series."""
    assert main(["landed", str(put(tmp_path, "a", "b"))]) == 1
    said = capsys.readouterr().out.splitlines()
    assert len(said) >= 5
    assert all(Landing.MISSING in line for line in said)
    assert main(["landed", str(tmp_path / "vllm")]) == 4
