# SPDX-License-Identifier: Apache-2.0
"""``results/<tag>/<profile>/summary.json``: what a reviewer or a script reads first."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from harness.models.base import Model
from harness.models.pin import BlobId, Sha256, Tag
from harness.models.series import Number
from harness.models.signal import Judgement, Line, Signal, Verdict


class State(Model):
    """The pinned tree with the first so many patches on it."""

    label: str
    """``base``, or the number of the last patch."""
    commit: BlobId
    content: Sha256
    """Of every Python file below ``vllm/``: the same for both sources."""
    patches: tuple[Number, ...]
    served_as: str
    """Label of the state whose servers speak for this one; its own if it was served."""
    reason: Line
    """Why it was served, or why another state speaks for it."""


class Boot(Model):
    """One server start, and what came of it."""

    state: str
    server: str
    purpose: str
    """``answers`` (accuracy, acceptance, memory), ``timing``, or ``coverage``."""
    round: str
    """Which round of timing it belongs to; empty for the others."""
    block: NonNegativeInt
    """Which block of that round: its starts are compared with each other."""
    started: bool
    start_seconds: NonNegativeFloat | None
    reused: bool
    """Whether its facts come from an earlier run with the same key."""
    failure: Line | None
    raw: tuple[str, ...]
    """Files with its facts, relative to the summary."""


class FileExercise(Model):
    """What measured processes ran of one file's changed lines."""

    path: str
    changed: tuple[int, ...]
    """Executable lines that the patch adds or changes, numbered as patched."""
    executed: tuple[int, ...]
    removed_only: bool = False
    """The patch takes lines away here and adds none that can be executed."""

    @property
    def missing(self) -> tuple[int, ...]:
        """Changed lines that nothing ran."""
        ran = set(self.executed)
        return tuple(line for line in self.changed if line not in ran)


class ScenarioResult(Model):
    """What one probe scenario saw of a patch."""

    name: str
    changed: NonNegativeInt
    """Facts that differ between before and after, over all ranks."""
    examples: tuple[Line, ...]
    """The first of them: rank, fact, value before and after."""


class PatchResult(Model):
    """The verdict on one patch and all that led to it."""

    number: Number
    title: str
    file: str
    verdict: Verdict
    judgement: Judgement
    signals: tuple[Signal, ...]
    before: str
    """Label of the state without it."""
    after: str
    together_with: tuple[Number, ...] = ()
    """Other patches that the same before and after hold (QUICK)."""
    imported_by: tuple[str, ...]
    """Roles of the serving processes that imported a file of this patch."""
    exercise: tuple[FileExercise, ...]
    exercised_by: dict[str, NonNegativeInt] = {}
    """Changed lines that each measurement executed, by its name."""
    flips: dict[str, PositiveInt] = {}
    """Questions right on one side only, by the file in ``raw/`` with both answers."""
    scenarios: tuple[ScenarioResult, ...] = ()
    claims: tuple[Line, ...] = ()
    """Published figures with their status at this pin."""


class Machine(Model):
    """Where it was measured."""

    system: str
    processor: str
    cores: NonNegativeInt
    memory_bytes: NonNegativeInt
    accelerators: tuple[str, ...] = ()


class Summary(Model):
    """One run of ``make verify``."""

    schema_version: Literal[1] = 1
    tag: Tag
    profile: str
    verdict: Verdict
    quick: bool
    command: str
    """Repeats the run."""
    finished_at: str
    """UTC, ISO 8601."""
    seconds: NonNegativeFloat
    source: str
    base_commit: BlobId
    machine: Machine
    versions: dict[str, str]
    """Of the packages in the measured environment and of lm-eval."""
    model: dict[str, str]
    """What was served, with the hashes of its files."""
    limits: tuple[Line, ...]
    """What this run can't show, in words."""
    patches: dict[Number, PatchResult]
    states: tuple[State, ...]
    boots: tuple[Boot, ...]
    stand_ins: dict[str, str] = {}
    """What was replaced for measuring, by name, with the reason."""
