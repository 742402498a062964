# SPDX-License-Identifier: Apache-2.0
"""Hold every command line of a profile to the programs that would run it.

The lines are made by the functions that verify uses, and parsed by the pinned vLLM and
the pinned lm-eval themselves. Nothing is served, and no model is looked for.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import processes
from harness.errors import InfrastructureError
from harness.measure import accuracy, serving
from harness.measure.model import ReadyModel, described
from harness.measure.questions import Questions
from harness.measure.runner import Client, Runner
from harness.models.endpoint import Endpoint
from harness.models.facts import Origin, QuestionSource
from harness.models.profile import (
    AccuracyCell,
    HubModel,
    Profile,
    ServerSetup,
    ServingCell,
)
from harness.runtime.server import HOST, server_words
from harness.workflows.verify.boots import server_spec

VLLM_MODULE = "harness.inside.vllm_commands"
LM_EVAL_MODULE = "harness.inside.lm_eval_commands"

_PORT = 8000
_ANY_REVISION = "0" * 40
"""Stands for the commit that a run has to name."""

_TIMEOUT = 600.0
"""Seconds, most of them for importing vLLM on a busy machine."""

Said = Mapping[str, Sequence[Mapping[str, str]]]
"""Faults by the name of the line, as a measured process reports them."""


@dataclass(frozen=True)
class Place:
    """Where in a profile a command line comes from."""

    profile: str
    server: str
    program: str
    """``vllm serve``, ``vllm bench serve`` or ``lm-eval``."""
    cell: str = ""

    @property
    def name(self) -> str:
        return ":".join((self.profile, self.server, self.program, self.cell))


@dataclass(frozen=True)
class Fault:
    """One argument of one line that would not do."""

    place: Place
    argument: str
    message: str

    def line(self) -> str:
        """For a reader: where, what, how to mend."""
        place = self.place
        cell = f", cell {place.cell}" if place.cell else ""
        what = f"{self.argument}: " if self.argument else ""
        return (
            f"configs/profiles/{place.profile}.yaml: server {place.server}{cell}: "
            f"{place.program}: {what}{self.message} ({_mend(self.argument)})"
        )

    def plain(self) -> dict[str, str]:
        """For a report in JSON."""
        place = self.place
        return {
            "profile": place.profile,
            "server": place.server,
            "cell": place.cell,
            "program": place.program,
            "argument": self.argument,
            "message": self.message,
        }


@dataclass(frozen=True)
class Line:
    """A command line to be parsed.

    Attributes:
        words: What follows the program's name.
        more: What else the parsing process is told: ``variables`` or ``score``.
    """

    place: Place
    words: tuple[str, ...]
    more: dict[str, Any] = field(default_factory=dict, hash=False)

    def plain(self) -> dict[str, Any]:
        return {"name": self.place.name, "words": list(self.words), **self.more}


def check(
    profiles: Sequence[Profile],
    vllm: Runner,
    client: Client,
    *,
    say: Callable[[str], None],
) -> tuple[int, tuple[Fault, ...]]:
    """Parse every line of every profile.

    Args:
        vllm: The pinned tree, ready to run.
        client: The environment of lm-eval.

    Returns:
        How many lines there are, and all that is wrong with them.

    Raises:
        InfrastructureError: A parsing process failed.
    """
    with tempfile.TemporaryDirectory(prefix="harness-profiles-") as folder:
        place = Path(folder)
        served = [line for profile in profiles for line in vllm_lines(profile, place)]
        asked = [
            line
            for profile in profiles
            for line in lm_eval_lines(profile, client, place)
        ]
        say(f"{len(served)} command lines of vLLM")
        faults = _ask(vllm, VLLM_MODULE, served, place)
        if asked:
            say(f"{len(asked)} command lines of lm-eval")
            faults += _ask(client, LM_EVAL_MODULE, asked, place)
    return len(served) + len(asked), tuple(faults)


def vllm_lines(profile: Profile, folder: Path) -> Iterator[Line]:
    """The servers of a profile, and the benchmarks on them."""
    model = _model(profile)
    for setup in profile.servers:
        spec = server_spec(profile, setup, model)
        yield Line(
            Place(profile.name, setup.name, "vllm serve"),
            tuple(server_words(spec, _PORT)),
            {"variables": dict(spec.env)},
        )
        for cell in setup.serving:
            yield _bench_line(profile, setup, cell, model, folder)


def _bench_line(
    profile: Profile,
    setup: ServerSetup,
    cell: ServingCell,
    model: ReadyModel,
    folder: Path,
) -> Line:
    words = serving.client_arguments(
        _endpoint(profile, model),
        cell,
        folder / serving.RESULT,
        prompts=cell.prompts.full,
        seed=0,
    )
    place = Place(profile.name, setup.name, "vllm bench serve", cell.name)
    return Line(place, tuple(words), {"variables": {}})


def lm_eval_lines(profile: Profile, client: Client, folder: Path) -> Iterator[Line]:
    """The accuracy cells of a profile; their tasks are written below ``folder``."""
    endpoint = _endpoint(profile, _model(profile))
    for setup in profile.servers:
        for cell in setup.accuracy:
            task = accuracy.LOCAL_TASK.format(task=cell.task)
            # One folder for all cells of a task: lm-eval reads all its own for each.
            tasks = _tasks(client, cell, task, folder / cell.task)
            words = accuracy.client_arguments(
                cell,
                task,
                endpoint.completions,
                endpoint.model,
                folder / accuracy.OUTPUT,
                tasks,
                cell.questions.full,
                profile.deadlines,
            )
            place = Place(profile.name, setup.name, "lm-eval", cell.name)
            yield Line(place, tuple(words), {"score": cell.score})


def _tasks(client: Client, cell: AccuracyCell, task: str, folder: Path) -> Path:
    source = QuestionSource(
        name=cell.data, origin=Origin.OWN, test=cell.questions.full, sha256={}
    )
    return accuracy.write_task(client, cell, task, Questions(source, folder), folder)


def _model(profile: Profile) -> ReadyModel:
    model = profile.model
    if isinstance(model, HubModel) and model.revision is None:
        model = model.model_copy(update={"revision": _ANY_REVISION})
    return described(model)


def _endpoint(profile: Profile, model: ReadyModel) -> Endpoint:
    return Endpoint(
        base_url=f"http://{HOST}:{_PORT}",
        api_key="key",
        model=profile.served_name,
        tokenizer=model.tokenizer,
        tokenizer_mode=model.tokenizer_mode,
    )


def _ask(
    runner: Runner,
    module: str,
    lines: Sequence[Line],
    folder: Path,
) -> list[Fault]:
    """Have a measured environment parse ``lines``."""
    source, target = folder / "lines.json", folder / "faults.json"
    source.write_text(json.dumps([line.plain() for line in lines]), encoding="utf-8")
    target.unlink(missing_ok=True)
    log = folder / "log.txt"
    log.unlink(missing_ok=True)
    done = processes.run(
        runner.command(module, str(source), str(target)),
        log=log,
        timeout=_TIMEOUT,
        env=runner.env,
        cwd=folder,
    )
    if done.status != 0 or not target.is_file():
        raise InfrastructureError(
            processes.describe_status(done.status),
            where=f"parsing command lines with {module}",
            detail=processes.tail(log, 20),
        )
    said: Said = json.loads(target.read_text(encoding="utf-8"))
    return [
        Fault(line.place, fault["argument"], fault["message"])
        for line in lines
        for fault in said[line.place.name]
    ]


def _mend(argument: str) -> str:
    if argument == "score":
        return "correct the cell's score"
    if argument.startswith("--"):
        return "correct or remove it"
    if argument:
        return "correct or remove the variable"
    return "correct the server's or the cell's settings"
