# SPDX-License-Identifier: Apache-2.0
"""What the probe suite found: per patch whether its claims hold, and all that moved."""

from __future__ import annotations

from enum import StrEnum

from harness.models.base import Model
from harness.models.claims import Figure
from harness.models.probe_facts import Fact, StandInUse
from harness.models.series import Number


class ProblemKind(StrEnum):
    """What is wrong; all but the last are the patch's doing."""

    BROKEN_CLAIM = "broken-claim"
    UNNAMED_CHANGE = "unnamed-change"
    DISAGREEMENT = "disagreement"
    CRASH = "crash"
    """The patched tree failed in a file that the patch changes; the tree without the
    patch ran."""
    NOT_MEASURED = "not-measured"
    """Infrastructure: says nothing of the patch."""


class Problem(Model):
    """One thing that is wrong, named by the fact it shows in."""

    kind: ProblemKind
    scenario: str
    rank: int | None = None
    fact: str = ""
    message: str


class FactChange(Model):
    """A fact that differs between before and after."""

    scenario: str
    rank: int
    fact: str
    before: Fact
    after: Fact
    claimed: bool


class ProbeVerdict(StrEnum):
    """What the probes say of one patch."""

    HOLDS = "holds"
    REGRESSED = "regressed"
    NOT_MEASURED = "not-measured"


class PatchProbes(Model):
    """The probes of one patch."""

    patch: Number
    verdict: ProbeVerdict
    before: str
    """The states that were compared."""
    after: str
    scenarios: tuple[str, ...]
    ranks: int
    """Ranks that ran, over all scenarios (of the state after)."""
    compared: int
    """Facts that were compared."""
    changes: tuple[FactChange, ...]
    problems: tuple[Problem, ...]
    standins: tuple[StandInUse, ...]
    figures: tuple[Figure, ...]
    executed: dict[str, tuple[int, ...]]
    """Lines that ran in the state after, by path in the tree, numbered as there."""
    executed_before: dict[str, tuple[int, ...]]


class ProbeReport(Model):
    """One run of the suite."""

    quick: bool
    seconds: float
    patches: tuple[PatchProbes, ...]
    facts: str
    """Name of the file with every fact, in the folder of the report."""
