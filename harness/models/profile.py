# SPDX-License-Identifier: Apache-2.0
"""A profile: on what, with which model and how a state is measured.

The files are ``configs/profiles/<name>.yaml``.
"""

from __future__ import annotations

import json
import math
import re
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from harness.models.base import Model
from harness.models.gates import Gates, Margin
from harness.models.series import Number

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
"""A name that is also a file name."""

PluginTarget = Annotated[
    str, StringConstraints(pattern=r"^harness\.inside(\.\w+)+:\w+$")
]
"""``module:function`` below ``harness.inside``, loaded in every vLLM process."""

Builder = Annotated[str, StringConstraints(pattern=r"^harness\.inside(\.\w+)+$")]
"""A module below ``harness.inside`` that writes a model: ``--out DIR --seed N``."""

_PARALLEL = re.compile(r"--(tensor|data|pipeline)-parallel-size=\d+")
_RAY = frozenset({"--data-parallel-backend=ray", "--distributed-executor-backend=ray"})

MARGIN_TOKENS = 32
"""Tokens of the context that no cell may plan to use: prompts are never exact."""


class Device(StrEnum):
    """The hardware kinds that vLLM is built for."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"


class MadeModel(Model):
    """A model whose weights a builder of this repository makes, on the spot."""

    kind: Literal["made"]
    builder: Builder
    seed: Annotated[int, Field(ge=0)]


class LocalModel(Model):
    """A model in a folder of this repository."""

    kind: Literal["local"]
    path: str
    """Relative to the repository's root."""

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError("must be a path inside the repository")
        return value


Revision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
"""A commit on the hub; a branch would move between two measurements."""


class HubModel(Model):
    """A model on the hub, at one revision."""

    kind: Literal["hub"]
    id: str
    revision: Revision | None = None
    """None: none is recorded yet; a run has to name one."""
    tokenizer_mode: str | None = None
    """vLLM's ``--tokenizer-mode``, of the server and of the benchmark: with another
    tokenizer than the server's a benchmark's prompts have other lengths."""


ModelSource = Annotated[MadeModel | LocalModel | HubModel, Field(discriminator="kind")]


class Speculation(Model):
    """vLLM's ``--speculative-config``."""

    method: str
    num_speculative_tokens: PositiveInt
    options: dict[str, Any] = Field(default_factory=dict)
    """Further keys, such as ``rejection_sample_method``."""

    def argument(self) -> str:
        """The value of ``--speculative-config``."""
        return json.dumps(
            {
                "method": self.method,
                "num_speculative_tokens": self.num_speculative_tokens,
                **self.options,
            },
            sort_keys=True,
        )


class Count(Model):
    """How many of something in a full run, and with QUICK=1."""

    full: PositiveInt
    quick: PositiveInt

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if self.quick > self.full:
            raise ValueError(f"quick ({self.quick}) is more than full ({self.full})")
        return self

    def of(self, *, quick: bool) -> int:
        return self.quick if quick else self.full


class AccuracyCell(Model):
    """One task of lm-eval against the completions endpoint."""

    name: Name
    task: Name = "gsm8k"
    """The lm-eval task whose prompts and scoring are used, unchanged."""
    data: str = "gsm8k"
    """``gsm8k``, or a folder of this repository with train.jsonl and test.jsonl."""
    fewshot: Annotated[int, Field(ge=0)]
    questions: Count
    max_gen_toks: PositiveInt
    concurrency: PositiveInt
    score: str = "strict-match"
    """The filter of the task whose score decides right or wrong."""
    logprobs: bool = False
    """Ask for each answer token's log-probability and keep it."""
    margin: Margin | None = None
    """Loss of accuracy that must be excluded here; None: as the gates say."""
    seed: Annotated[int, Field(ge=0)] = 1234
    """Chooses the few-shot examples; goes with each request too."""
    temperature: Annotated[float, Field(ge=0)] = 0
    """0: greedy; else each answer is sampled, with ``seed``."""


class ServingCell(Model):
    """One ``vllm bench serve``."""

    name: Name
    dataset: Literal["random"] = "random"
    input_tokens: PositiveInt
    output_tokens: Annotated[int, Field(ge=2)]
    """Two at least: a single token has no time per output token."""
    prompts: Count
    concurrency: PositiveInt

    @model_validator(mode="after")
    def _concurrency_reached(self) -> ServingCell:
        if self.prompts.quick < self.concurrency:
            raise ValueError(
                f"{self.prompts.quick} prompts never reach a concurrency of "
                f"{self.concurrency}"
            )
        return self


class AcceptanceCell(Model):
    """Greedy completions of real questions, counted batch by batch."""

    name: Name
    data: str = "gsm8k"
    """As in :class:`AccuracyCell`."""
    fewshot: Annotated[int, Field(ge=0)]
    prompts: Count
    output_tokens: Annotated[int, Field(ge=2)]
    batch: PositiveInt
    """Prompts per batch, all at once; a batch is the statistical cluster."""
    stop_token_ids: tuple[int, ...] = ()
    """The engine stops at these; none: every answer runs to ``output_tokens``.
    (Stop strings would not do: they are cut outside the engine, and the counters
    drift.)"""
    lowest_rates: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()
    """The lowest plausible acceptance at each position: a floor that needs no base."""


class Deadlines(Model):
    """Seconds after which something has failed."""

    start: PositiveFloat
    stall: PositiveFloat
    """Without a line in the log while starting, or a token while serving."""
    request: PositiveFloat
    """For one completion."""
    accuracy: PositiveFloat
    """For one accuracy cell."""
    serving: PositiveFloat
    """For one benchmark."""


class ServerSetup(Model):
    """One way to serve the model, and what is measured on it."""

    name: Name
    arguments: tuple[str, ...] = ()
    """Of ``vllm serve``, besides model, address, context and speculation."""
    environment: dict[str, str] = Field(default_factory=dict)
    context_tokens: PositiveInt
    """``--max-model-len``."""
    speculation: Speculation | None = None
    plugins: dict[str, PluginTarget] = Field(default_factory=dict)
    patches: tuple[Number, ...] = ()
    """Patches that get a state of their own on this server, if it imports them; none
    means all. Others are left to other servers, or judged with the next of these."""
    quick: bool = True
    """Whether a quick run serves it too."""
    traced: bool = True
    """Whether executed lines are traced on it: a start of its own for each state."""
    accuracy: tuple[AccuracyCell, ...] = ()
    serving: tuple[ServingCell, ...] = ()
    acceptance: tuple[AcceptanceCell, ...] = ()

    @property
    def workers(self) -> int:
        """Processes that run the model: tensor times data times pipeline parallel."""
        return math.prod(
            int(argument.partition("=")[2])
            for argument in self.arguments
            if _PARALLEL.fullmatch(argument)
        )

    @property
    def uses_ray(self) -> bool:
        """Whether vLLM's Ray backend starts the workers, on several machines if need
        be."""
        return not _RAY.isdisjoint(self.arguments)

    def judges(self, number: Number) -> bool:
        """Whether what is measured here tells of this patch, if it is imported."""
        return not self.patches or number <= max(self.patches)

    def server_arguments(self) -> list[str]:
        """What follows ``vllm serve MODEL``, but for name, host and port."""
        spec = self.speculation
        return [
            *self.arguments,
            "--max-model-len",
            str(self.context_tokens),
            *(["--speculative-config", spec.argument()] if spec else []),
        ]

    @model_validator(mode="after")
    def _consistent(self) -> ServerSetup:
        for flag in ("--max-model-len", "--speculative-config", "--port", "--api-key"):
            if any(a == flag or a.startswith(f"{flag}=") for a in self.arguments):
                raise ValueError(f"{flag} is set by another field or by the harness")
        names = [
            *(cell.name for cell in self.accuracy),
            *(cell.name for cell in self.serving),
            *(cell.name for cell in self.acceptance),
        ]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"cells share a name: {', '.join(sorted(twice))}")
        room = self.context_tokens - MARGIN_TOKENS
        for cell in self.serving:
            if cell.input_tokens + cell.output_tokens > room:
                raise ValueError(f"{cell.name}: does not fit in {room} tokens")
        if self.acceptance and self.speculation is None:
            raise ValueError("acceptance cells without speculation")
        for asked in self.accuracy:
            if asked.max_gen_toks > room:
                raise ValueError(f"{asked.name}: does not fit in {room} tokens")
        positions = self.speculation.num_speculative_tokens if self.speculation else 0
        for drafted in self.acceptance:
            if drafted.lowest_rates and len(drafted.lowest_rates) != positions:
                raise ValueError(
                    f"{drafted.name}: lowest_rates must name {positions} positions"
                )
        return self


class Coverage(Model):
    """Whether a profile's servers run what a patch changed, in words."""

    runs: bool
    note: Annotated[str, StringConstraints(min_length=10)]


class Machines(Model):
    """The devices that a profile's largest server takes."""

    devices: PositiveInt
    """On each machine."""
    nodes: PositiveInt = 1
    """Machines; with more than one, vLLM's Ray backend reaches the others."""


class Profile(Model):
    """Everything that ``make verify PROFILE=<name>`` needs to know."""

    name: Name
    title: str
    description: str
    device: Device
    environment: str | None
    """The lock in configs/requirements that holds vLLM for this device; None: there
    is none, and a run has to name a Python with that vLLM (PYTHON=...)."""
    runs_here: str
    """What a machine needs for this profile, in words."""
    machines: Machines | None = None
    """None on a CPU, where workers are processes."""
    model: ModelSource
    served_name: Name
    deadlines: Deadlines
    gates: Gates = Gates()
    jobs: PositiveInt = 1
    """Measurements that don't depend on the clock and run side by side: each takes a
    server's memory, and a core or more."""
    quick_probes: bool = False
    """Hold the patches to the quick part of their claims, in a full run as well: for a
    profile whose servers are what it is for."""
    servers: Annotated[tuple[ServerSetup, ...], Field(min_length=1)]
    coverage: dict[Number, Coverage]
    unmeasured: dict[Number, tuple[str, ...]] = Field(default_factory=dict)
    """Published figures that need this hardware, by patch: the texts of figures in
    patches/claims that are marked as not measured."""
    page: str | None = None
    """Where its results are shown, from the repository's root; None: in
    ``results/<tag>/<name>/report.md``."""

    def served(self, *, quick: bool) -> tuple[ServerSetup, ...]:
        """The servers of a whole run, or of a quick one."""
        return tuple(server for server in self.servers if server.quick or not quick)

    @model_validator(mode="after")
    def _names_differ(self) -> Profile:
        names = [server.name for server in self.servers]
        if len(set(names)) != len(names):
            raise ValueError("two servers share a name")
        return self

    @model_validator(mode="after")
    def _workers_fit(self) -> Profile:
        if self.device is Device.CPU:
            return self
        if self.machines is None:
            raise ValueError("machines: how many devices does it take?")
        devices, nodes = self.machines.devices, self.machines.nodes
        for server in self.servers:
            if server.workers > devices * nodes:
                raise ValueError(
                    f"{server.name}: {server.workers} workers on {devices * nodes} "
                    "devices"
                )
            if server.workers > devices and not server.uses_ray:
                raise ValueError(
                    f"{server.name}: {server.workers} workers need several machines, "
                    f"so one of {', '.join(sorted(_RAY))}"
                )
        return self
