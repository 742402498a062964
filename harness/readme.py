# SPDX-License-Identifier: Apache-2.0
"""Generated parts of README, each between two markers with its name."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from harness.files import write_atomic


def show(readme: Path, name: str, text: str) -> bool:
    """Put ``text`` between the markers of ``name``.

    Returns:
        Whether the file has the markers; without them it is left alone.

    Raises:
        UsageError: There is one marker without the other, or they are out of order.
    """
    content = readme.read_text(encoding="utf-8") if readme.exists() else ""
    begin, end = markers(name)
    if begin not in content and end not in content:
        return False
    head, opened, rest = content.partition(begin)
    _, closed, tail = rest.partition(end)
    if not opened or not closed:
        raise UsageError(f"needs {begin} before {end}", where=str(readme))
    updated = f"{head}{begin}\n{text.strip()}\n{end}{tail}"
    if updated != content:
        write_atomic(readme, updated)
    return True


def shown(readme: Path, name: str) -> str | None:
    """What stands between the markers; None without them."""
    content = readme.read_text(encoding="utf-8")
    begin, end = markers(name)
    if begin not in content or end not in content:
        return None
    return content.partition(begin)[2].partition(end)[0].strip() + "\n"


def markers(name: str) -> tuple[str, str]:
    """The two lines that enclose the part."""
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
