# SPDX-License-Identifier: Apache-2.0
"""The exit codes, and the errors that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller; the same for every command."""

    PASS = 0
    REGRESSED = 1
    """A patch regressed, broke its claim, or stopped applying at its pin."""
    INCONCLUSIVE = 2
    """Measured, but the evidence allows no verdict."""
    INFRASTRUCTURE = 3
    """Something could not be measured or fetched; says nothing of the patch."""
    USAGE = 4
    """Bad usage, configuration or input."""


class HarnessError(Exception):
    """A failure that the user reads as one line: what, where, how to mend.

    Args:
        what: What went wrong, without a final full stop.
        where: The file (with line), patch, release or process concerned.
        fix: What the user can do about it.
        detail: Lines shown above the one line, such as the end of a log.
    """

    exit_code = ExitCode.INFRASTRUCTURE

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        detail: Sequence[str] = (),
    ) -> None:
        self.detail = tuple(detail)
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(self.line())

    def line(self) -> str:
        """The one line that the user sees."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.fix})" if self.fix else text


class UsageError(HarnessError):
    """Bad usage, configuration or input: exit code 4."""

    exit_code = ExitCode.USAGE


class InfrastructureError(HarnessError):
    """Could not fetch, start or measure; never a verdict on a patch: exit code 3."""

    exit_code = ExitCode.INFRASTRUCTURE


class PatchError(HarnessError):
    """A patch is at fault (does not apply, does not compile): exit code 1."""

    exit_code = ExitCode.REGRESSED
