# SPDX-License-Identifier: Apache-2.0
"""Measure the committed reference model on the pinned tree, without the series."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from harness.errors import InfrastructureError
from harness.files import write_atomic
from harness.measure import model as models
from harness.measure.runner import Client
from harness.models.boots import BootFacts, Part
from harness.models.facts import AcceptanceFacts, AccuracyFacts
from harness.models.pin import Upstream
from harness.models.profile import Profile, ServerSetup
from harness.models.reference_results import (
    Acceptance,
    Accuracy,
    Agreement,
    ReferenceResults,
    ServerResult,
)
from harness.models.series import Series
from harness.paths import Project
from harness.runtime.environment import Environment, ensure
from harness.series.checkout import apply
from harness.workflows.reference_markdown import render
from harness.workflows.verify.asked import gather
from harness.workflows.verify.boots import Bench, Start, client_overlay, run_start
from harness.workflows.verify.states import TreeState, series_states

PROFILE = "reference"
FOLDER = "reference-model"
_ANSWERS = frozenset({Part.ANSWERS})

Say = Callable[[str], None]


@dataclass(frozen=True)
class Subject:
    """What is measured, and with what."""

    project: Project
    upstream: Upstream
    series: Series
    profile: Profile
    environment: Environment
    quick: bool
    command: str


def measure(subject: Subject, say: Say) -> ReferenceResults:
    """Serve the model in every way the profile names, and measure each.

    Raises:
        InfrastructureError: A server or a measurement failed; nothing is written.
    """
    bench = _bench(subject, say)
    base = _base(subject, say)
    client = client_overlay(bench, base)
    servers: list[ServerResult] = []
    answers: dict[str, AccuracyFacts] = {}
    for setup in subject.profile.servers:
        start = Start(base, setup, _ANSWERS)
        facts = run_start(bench, start, client)
        servers.append(_server(setup, facts))
        answers[setup.name] = facts.accuracy[0]
        say(_line(servers[-1]))
    first, *others = answers
    return ReferenceResults(
        command=subject.command,
        tree=subject.upstream.tag,
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions={
            **subject.environment.fingerprint(),
            "lm-eval": bench.client.version("lm-eval"),
        },
        model=bench.model.digest,
        servers=tuple(servers),
        agreement=tuple(
            agreement((first, other), answers[first], answers[other])
            for other in others
        ),
    )


def write(project: Project, results: ReferenceResults) -> Path:
    """Write ``results/reference-model/``: the numbers, and the page."""
    folder = project.results / FOLDER
    text = results.model_dump_json(indent=1) + "\n"
    write_atomic(folder / "summary.json", text)
    write_atomic(folder / "README.md", render(results))
    return folder


def agreement(
    names: tuple[str, str], one: AccuracyFacts, other: AccuracyFacts
) -> Agreement:
    """How far two servers give the same greedy answers.

    Raises:
        InfrastructureError: They were asked different things.
    """
    if [a.key for a in one.answers] != [a.key for a in other.answers]:
        raise InfrastructureError(
            "were asked different questions", where=" and ".join(names)
        )
    pairs = list(zip(one.answers, other.answers, strict=True))
    same = [(a, b) for a, b in pairs if a.raw == b.raw]
    differences = (
        abs(x - y)
        for a, b in same
        for x, y in zip(a.token_logprobs, b.token_logprobs, strict=False)
    )
    return Agreement(
        servers=names,
        answers=len(pairs),
        same=len(same),
        longer=sum(a.completion_tokens != b.completion_tokens for a, b in same),
        largest_logprob_difference=max(differences, default=0.0),
    )


def plain_arguments(command: Sequence[str]) -> tuple[str, ...]:
    """lm-eval's arguments with the folders of this machine left out."""
    start = command.index("lm_eval") if "lm_eval" in command else 0
    return tuple(
        PurePath(word).name if word.startswith("/") else _without_address(word)
        for word in command[start:]
    )


def _without_address(word: str) -> str:
    key, _, value = word.partition("=")
    if key == "base_url":
        return f"base_url=http://SERVER{value[value.index('/v1') :]}"
    return word


def _bench(subject: Subject, say: Say) -> Bench:
    profile, project = subject.profile, subject.project
    asked = gather(project, profile, quick=subject.quick, say=say)
    return Bench(
        project=project,
        upstream=subject.upstream,
        profile=profile,
        quick=subject.quick,
        environment=subject.environment,
        client=Client(ensure(project, "lm-eval", progress=say)),
        model=models.ensure(project, profile.model, subject.environment),
        questions=asked.questions,
        prompts=asked.prompts,
        folder=project.build / "runs" / profile.name,
        say=say,
    )


def _base(subject: Subject, say: Say) -> TreeState:
    checkout = apply(
        subject.project, subject.upstream, subject.series, source=None, say=say
    )
    return series_states(subject.project, subject.series, checkout.state)[0]


def _server(setup: ServerSetup, facts: BootFacts) -> ServerResult:
    speculation = setup.speculation
    return ServerResult(
        name=setup.name,
        draft_tokens=speculation.num_speculative_tokens if speculation else 0,
        start_seconds=facts.start_seconds,
        accuracy=tuple(_accuracy(found) for found in facts.accuracy),
        acceptance=tuple(_acceptance(found) for found in facts.acceptance),
    )


def _accuracy(facts: AccuracyFacts) -> Accuracy:
    return Accuracy(
        questions=len(facts.answers),
        fewshot=facts.fewshot,
        score=facts.score,
        accuracy=facts.accuracy,
        outcomes={outcome.value: count for outcome, count in facts.counts.items()},
        task_hash=facts.task_hash,
        arguments=plain_arguments(facts.command),
    )


def _acceptance(facts: AcceptanceFacts) -> Acceptance:
    return Acceptance(
        cell=facts.cell,
        prompts=facts.prompts,
        output_tokens=facts.output_tokens,
        counts=facts.total,
        rates=facts.total.rates,
    )


def _line(server: ServerResult) -> str:
    parts = [f"{a.accuracy:.3f} of {a.questions} right" for a in server.accuracy]
    for drafted in server.acceptance:
        rates = "/".join(f"{rate:.3f}" for rate in drafted.rates)
        parts.append(f"{drafted.cell} accepts {rates}")
    return f"{server.name}: {', '.join(parts)}"
