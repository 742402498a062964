# SPDX-License-Identifier: Apache-2.0
"""The table's place in README."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from harness.files import write_atomic

BEGIN = "<!-- compat:begin -->"
END = "<!-- compat:end -->"


def show(readme: Path, text: str) -> bool:
    """Put ``text`` between the markers.

    Returns:
        Whether the file has the markers; without them it is left alone.

    Raises:
        UsageError: There is one marker without the other, or they are out of order.
    """
    content = readme.read_text(encoding="utf-8") if readme.exists() else ""
    if BEGIN not in content and END not in content:
        return False
    head, begin, rest = content.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"needs {BEGIN} before {END}", where=str(readme))
    updated = f"{head}{BEGIN}\n{text.strip()}\n{END}{tail}"
    if updated != content:
        write_atomic(readme, updated)
    return True


def shown(readme: Path) -> str | None:
    """What stands between the markers; None without them."""
    content = readme.read_text(encoding="utf-8")
    if BEGIN not in content or END not in content:
        return None
    return content.partition(BEGIN)[2].partition(END)[0].strip() + "\n"
