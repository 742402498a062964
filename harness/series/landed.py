# SPDX-License-Identifier: Apache-2.0
"""Whether the series is in files that somebody else has patched or installed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.errors import UsageError
from harness.files import blob_id
from harness.models.series import Series


class Landing(StrEnum):
    """What a file has of a patch."""

    LANDED = "landed"
    NOT_APPLIED = "not applied"
    MISSING = "missing"
    """There is no such file."""
    UNKNOWN = "unknown"
    """The file is, byte for byte, none that the series makes or starts from."""


@dataclass(frozen=True)
class Landed:
    """One target of one patch.

    Attributes:
        found: The file's blob id; None if there is no file.
        wanted: The blob id that the patch leaves.
    """

    number: str
    path: str
    landing: Landing
    found: str | None
    wanted: str


def landed(series: Series, folder: Path) -> list[Landed]:
    """Compare the files in ``folder``, which holds ``vllm/``, with the series.

    Raises:
        UsageError: The folder holds no ``vllm/``.
    """
    if not (folder / "vllm").is_dir():
        raise UsageError(
            "holds no vllm/",
            where=str(folder),
            fix="name the folder above it: site-packages, or the root of a checkout",
        )
    steps = series.steps()
    ids = {path: _blob(folder / path) for path in steps}
    found = []
    for patch in series.patches:
        for target in patch.targets:
            steps_of_file = steps[target.path]
            landing = _landing(ids[target.path], steps_of_file, target.after)
            found.append(
                Landed(
                    patch.number, target.path, landing, ids[target.path], target.after
                )
            )
    return found


def _blob(path: Path) -> str | None:
    return blob_id(path.read_bytes()) if path.is_file() else None


def _landing(found: str | None, steps: list[str], wanted: str) -> Landing:
    if found is None:
        return Landing.MISSING
    if found not in steps:
        return Landing.UNKNOWN
    reached = steps.index(found) >= steps.index(wanted)
    return Landing.LANDED if reached else Landing.NOT_APPLIED
