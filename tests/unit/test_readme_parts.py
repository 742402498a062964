# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.readme import markers, show, shown

BEGIN, END = markers("part")


def test_section_is_replaced_and_read(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert show(readme, "part", "| new |\n")
    assert readme.read_text() == f"before\n{BEGIN}\n| new |\n{END}\nafter\n"
    assert shown(readme, "part") == "| new |\n"


def test_file_without_its_second_marker_is_refused(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\n")
    with pytest.raises(UsageError, match="needs"):
        show(readme, "part", "x")
    readme.write_text("no markers\n")
    assert not show(readme, "part", "x")
