# SPDX-License-Identifier: Apache-2.0
"""Scenarios and claims of a patch: ``patches/claims/<number>.yaml``.

A claims file names probes and their scenarios, and says which facts the patch changes,
by how much and where. Every fact that no claim names has to stay equal, bit for bit.

Names and patterns. A scenario is known as ``<probe>/<scenario>``. Patterns of scenarios
and facts are shell patterns; in a fact's pattern ``{n}`` stands for an integer that a
formula can use. A value that begins with ``=`` is such a formula: whole-number
arithmetic over captured integers, the ``rank``, and the scenario's parameters and
variables.
"""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from harness.models.base import Model
from harness.models.probe_facts import Fact
from harness.models.series import Number

Dotted = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
Text = Annotated[str, StringConstraints(min_length=10)]
Patterns = Annotated[tuple[str, ...], Field(min_length=1)]
Ranks = Literal["all", "first", "last"] | tuple[int, ...]

BEFORE = "before"
AFTER = "after"


class Scenario(Model):
    """One scenario, or with ``matrix`` one for each combination of its values.

    ``name`` may hold ``{key}`` for each key of the matrix; the values become
    parameters. ``ranks`` is a number of processes or a formula over the parameters.
    """

    name: str
    ranks: int | str = 1
    parameters: dict[str, Any] = Field(default_factory=dict)
    variables: dict[str, int] = Field(default_factory=dict)
    """Numbers for the formulas of claims only."""
    matrix: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    quick: bool = False
    """Whether the quick subset has it."""
    crash_is_a_fact: bool = False
    """Whether how it ends (``outcome.*``) is compared and claimed like other facts,
    instead of a crash being a failure."""
    seconds: float = 300
    """Time limit of one run."""
    cost: float = 0
    """About how many seconds of one core it takes, if more than most; for planning."""
    against: str = BEFORE
    """Name of the state that the state after is compared with."""
    also: tuple[str, ...] = ()
    """Names of further states (see ``PatchClaims.states``) that it runs on."""

    def expand(self) -> tuple[Scenario, ...]:
        """The scenarios of the matrix, in the order written."""
        keys = list(self.matrix)
        found = []
        for values in itertools.product(*self.matrix.values()):
            chosen = dict(zip(keys, values, strict=True))
            shown = {k: "off" if v is None else v for k, v in chosen.items()}
            found.append(
                self.model_copy(
                    update={
                        "name": self.name.format(**shown),
                        "parameters": {**self.parameters, **chosen},
                        "matrix": {},
                    }
                )
            )
        return tuple(found)


class Probe(Model):
    """A module that runs in the measured process, and what to run it on."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
    module: Dotted
    """Has ``warm()`` and ``run(context)``: see ``harness/inside/probes``."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables that have to be set before anything is imported."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Of every scenario that does not set them itself."""
    variables: dict[str, int] = Field(default_factory=dict)
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]


class Change(Model):
    """Facts that the patch changes, everywhere the patterns say.

    At least one of ``before``, ``after``, ``delta`` and ``ratio`` says by how much.
    ``delta`` and ``ratio`` (``"1/2"``) are for numbers and, element by element, for
    lists of numbers of any depth; a ratio may be a list, one for each element of the
    innermost lists.
    """

    scenarios: Patterns
    facts: Patterns
    ranks: Ranks = "all"
    before: Fact = None
    after: Fact = None
    delta: int | str | None = None
    ratio: str | tuple[str, ...] | None = None
    where: dict[str, str] = Field(default_factory=dict)
    """Formulas with a name, for the other formulas; each may use those before it."""
    because: Text

    @model_validator(mode="after")
    def _says_how_much(self) -> Change:
        if not self.model_fields_set & {"before", "after", "delta", "ratio"}:
            raise ValueError("says not by how much: before, after, delta or ratio")
        return self


class Expectation(Model):
    """Facts that have a certain value in one state."""

    state: str = AFTER
    scenarios: Patterns
    facts: Patterns
    ranks: Ranks = "all"
    value: Fact
    because: Text


class Agreement(Model):
    """Facts that are the same on all ranks of a group of consecutive ranks."""

    scenarios: Patterns
    facts: Patterns
    group: str = "all"
    """The parameter that holds the group's size, or ``all``."""


class FigureStatus(StrEnum):
    """What stands behind a published number at this pin."""

    SHOWN = "shown"
    """Exact, and shown by the probes: the named facts hold it."""
    NOT_MEASURED = "not-measured"
    """Needs a GPU; a claim for a GPU profile, with nothing measured here."""


class Figure(Model):
    """A number that upstream published about its version of the change."""

    text: Text
    status: FigureStatus
    scenarios: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    """Where it is shown, as patterns; both or neither."""
    note: str = ""
    """Where the pin differs from the published description, or what is needed."""

    @model_validator(mode="after")
    def _shown_somewhere(self) -> Figure:
        shown = self.status is FigureStatus.SHOWN
        if shown != bool(self.scenarios and self.facts):
            raise ValueError("names scenarios and facts if, and only if, it is shown")
        return self


class PatchClaims(Model):
    """All that one patch is held to."""

    patch: Number
    probes: tuple[Probe, ...]
    states: dict[str, tuple[Number, ...]] = Field(default_factory=dict)
    """Further states to run on: a name, and the patches that are applied."""
    changes: tuple[Change, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    figures: tuple[Figure, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> PatchClaims:
        names: set[str] = set()
        known = {BEFORE, AFTER, *self.states}
        for probe in self.probes:
            for scenario in probe.scenarios:
                for one in scenario.expand():
                    name = f"{probe.name}/{one.name}"
                    if name in names:
                        raise ValueError(f"two scenarios are named {name}")
                    names.add(name)
                unknown = {scenario.against, *scenario.also} - known
                if unknown:
                    raise ValueError(f"{scenario.name}: no state {min(unknown)}")
        for expectation in self.expectations:
            if expectation.state not in known:
                raise ValueError(f"no state {expectation.state}")
        return self
