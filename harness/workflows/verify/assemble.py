# SPDX-License-Identifier: Apache-2.0
"""From everything that was measured to the summary: one verdict per patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.evidence.coverage import exercise
from harness.evidence.gates.common import invalid
from harness.evidence.verdicts import combine, worst
from harness.git import Git
from harness.models.noise import Noise
from harness.models.pin import Upstream
from harness.models.probe_report import PatchProbes
from harness.models.profile import Profile
from harness.models.series import PatchEntry, Series, Target
from harness.models.signal import Answer, Exercise, Signal
from harness.models.state import CheckoutState
from harness.models.summary import (
    Boot,
    FileExercise,
    PatchResult,
    State,
    Summary,
)
from harness.paths import Project
from harness.series.mail import read_message
from harness.workflows.verify.claims import (
    CLAIMS,
    Probed,
    scenario_results,
    signal,
)
from harness.workflows.verify.flips import flipped
from harness.workflows.verify.judge import Arms, StateFacts, compare
from harness.workflows.verify.machine import machine
from harness.workflows.verify.states import Comparison, Plan, TreeState


@dataclass(frozen=True)
class Evidence:
    """All that a run has gathered."""

    project: Project
    upstream: Upstream
    series: Series
    profile: Profile
    quick: bool
    git: Git
    applied: CheckoutState
    states: tuple[TreeState, ...]
    plans: Mapping[str, Plan]
    """By the name of the server setup."""
    facts: Mapping[tuple[str, str], StateFacts]
    """By the labels of state and server setup."""
    broken: Mapping[str, Mapping[str, str]]
    """Files that each state breaks so that they don't compile, with the reason."""
    probed: Probed
    boots: tuple[Boot, ...]
    versions: dict[str, str]
    model: dict[str, str]
    command: str
    finished_at: str
    seconds: float
    noise: Noise | None = None


def assemble(found: Evidence) -> Summary:
    """The summary of a run."""
    patches = {
        entry.number: _patch(found, entry, index)
        for index, entry in enumerate(found.series.patches)
    }
    return Summary(
        tag=found.upstream.tag,
        profile=found.profile.name,
        verdict=worst(patch.verdict for patch in patches.values()),
        quick=found.quick,
        command=found.command,
        finished_at=found.finished_at,
        seconds=round(found.seconds, 1),
        source=found.applied.source,
        base_commit=found.applied.base,
        machine=machine(),
        versions=found.versions,
        model=found.model,
        limits=_limits(found),
        patches=patches,
        states=_states(found),
        boots=_in_order(found),
        stand_ins=_stand_ins(found),
    )


def _patch(found: Evidence, entry: PatchEntry, index: int) -> PatchResult:
    before, after = found.states[index], found.states[index + 1]
    signals: list[Signal] = []
    compared: list[Comparison] = []
    kept: dict[str, int] = {}
    for path, reason in found.broken[after.label].items():
        signals.append(
            Signal(name=f"{path} compiles", answer=Answer.WORSE, reason=reason)
        )
    if not signals and (culprit := _broken_before(found, index)):
        reason = f"the tree with {culprit} does not compile"
        signals.append(invalid("the state after it", reason))
    probes = _probes(found, entry)
    if probes:
        signals.append(signal(probes))
    elif found.probed.failure and not signals and _has_claims(found, entry):
        signals.append(invalid("probes", found.probed.failure))
    for comparison, arms in comparisons(found):
        if entry in comparison.patches:
            compared.append(comparison)
            signals += compare(arms)
            kept |= {name: len(pairs) for name, pairs in flipped(arms).items()}
    signals += _unmeasured(found, entry, nothing_else=not signals)
    served, probed = _exercise(found, entry, before, after)
    files = _together(served, probed)
    counts = Exercise(
        changed=sum(len(file.changed) for file in files),
        executed=sum(len(file.executed) for file in files),
    )
    judgement = combine(signals, counts)
    first = compared[0] if compared else None
    return PatchResult(
        number=entry.number,
        title=read_message(found.git, found.project.patches / entry.file).subject,
        file=entry.file,
        verdict=judgement.verdict,
        judgement=judgement,
        signals=tuple(signals),
        before=first.before.label if first else before.label,
        after=first.after.label if first else before.label,
        together_with=tuple(
            other.number
            for other in (first.patches if first else ())
            if other.number != entry.number
        ),
        imported_by=_imported_by(found, entry),
        exercise=files,
        exercised_by={
            "serving": sum(len(file.executed) for file in served),
            "probes": sum(len(file.executed) for file in probed),
        },
        flips=kept,
        scenarios=scenario_results(probes) if probes else (),
        claims=_claims(probes),
    )


def _broken_before(found: Evidence, index: int) -> str:
    """The first patch up to this one whose tree does not compile; "" for none."""
    broken = (s.label for s in found.states[1 : index + 2] if found.broken[s.label])
    return next(broken, "")


def comparisons(found: Evidence) -> list[tuple[Comparison, Arms]]:
    """Everything that is compared, with both sides' facts."""
    servers = {setup.name: setup for setup in found.profile.servers}
    nothing = StateFacts()
    return [
        (
            comparison,
            Arms(
                comparison.name,
                servers[setup],
                found.profile.gates,
                found.quick,
                found.facts.get((comparison.before.label, setup), nothing),
                found.facts.get((comparison.after.label, setup), nothing),
                tuple(c for entry in comparison.patches for c in entry.collectives),
                tuple(e.hidden_buffer for e in comparison.patches if e.hidden_buffer),
                found.noise,
            ),
        )
        for setup, plan in found.plans.items()
        for comparison in plan.comparisons
    ]


def _unmeasured(
    found: Evidence, entry: PatchEntry, *, nothing_else: bool
) -> list[Signal]:
    """What no served state could tell of this patch.

    A base that could not be served leaves open what its processes import: the rest may
    then speak for a patch only if the profile says that no server runs it.
    """
    signals: list[Signal] = []
    coverage = found.profile.coverage.get(entry.number)
    if nothing_else or not coverage or coverage.runs:
        base = found.states[0].label
        for setup in found.profile.servers:
            facts = found.facts.get((base, setup.name))
            if facts and facts.answers is None and setup.judges(entry.number):
                reason = next(iter(facts.failures.values()), "was not started")
                signals.append(invalid(f"serving {setup.name}, unpatched", reason))
    if nothing_else and not signals:
        reason = f"no serving process of this profile imports a file of {entry.number}"
        signals.append(Signal(name="serving", answer=Answer.CANT_TELL, reason=reason))
    return signals


def _exercise(
    found: Evidence, entry: PatchEntry, before: TreeState, after: TreeState
) -> tuple[list[FileExercise], list[FileExercise]]:
    """What serving processes ran of the patch's changed lines, and what probes ran."""
    served: list[FileExercise] = []
    probed: list[FileExercise] = []
    probes = _probes(found, entry)
    for target in entry.targets:
        if target.path in found.broken[after.label]:
            nothing = FileExercise(path=target.path, changed=(), executed=())
            served.append(nothing)
            probed.append(nothing)
            continue
        old, new = (
            found.git.run("cat-file", "blob", blob).stdout.decode("utf-8")
            for blob in (target.before, target.after)
        )
        ran = _served_lines(found, target)
        served.append(exercise(target.path, old, new, ran))
        ran = set(probes.executed.get(target.path, ())) if probes else set()
        probed.append(exercise(target.path, old, new, ran))
    return served, probed


def _served_lines(found: Evidence, target: Target) -> set[int]:
    """Lines that ran in any traced state with the file as the patch left it."""
    ran: set[int] = set()
    for (label, _), facts in found.facts.items():
        if facts.coverage and _blob(found, label, target.path) == target.after:
            ran |= set(facts.coverage.lines.get(target.path, ()))
    return ran


def _together(
    one: Sequence[FileExercise], other: Sequence[FileExercise]
) -> tuple[FileExercise, ...]:
    return tuple(
        a.model_copy(update={"executed": tuple(sorted({*a.executed, *b.executed}))})
        for a, b in zip(one, other, strict=True)
    )


def _probes(found: Evidence, entry: PatchEntry) -> PatchProbes | None:
    report = found.probed.report
    for one in report.patches if report else ():
        if one.patch == entry.number:
            return one
    return None


def _has_claims(found: Evidence, entry: PatchEntry) -> bool:
    return (found.project.patches / CLAIMS / f"{entry.number}.yaml").exists()


def _claims(probes: PatchProbes | None) -> tuple[str, ...]:
    if probes is None:
        return ()
    return tuple(
        f"{figure.text}: {figure.status}" + (f" ({figure.note})" if figure.note else "")
        for figure in probes.figures
    )


def _blob(found: Evidence, label: str, path: str) -> str | None:
    state = next(state for state in found.states if state.label == label)
    return state.blobs.get(path)


def _imported_by(found: Evidence, entry: PatchEntry) -> tuple[str, ...]:
    roles: set[str] = set()
    for facts in found.facts.values():
        if facts.answers:
            for target in entry.targets:
                roles |= set(facts.answers.proof.executed(target.path))
    return tuple(sorted(roles))


def _limits(found: Evidence) -> tuple[str, ...]:
    lines = [
        f"{number}: {' '.join(coverage.note.split())}"
        for number, coverage in sorted(found.profile.coverage.items())
    ]
    if found.quick:
        lines.append(
            "QUICK: one server start for each state, few questions, and the patches "
            "that are executed are judged together. Speed is not judged: it is one "
            "pair of starts, timed beside other measurements where jobs allow that."
        )
        unserved = {s.name for s in found.profile.servers} - found.plans.keys()
        if unserved:
            lines.append(f"QUICK: not served: {', '.join(sorted(unserved))}")
    return tuple(lines)


def _stand_ins(found: Evidence) -> dict[str, str]:
    report = found.probed.report
    used = [s for one in (report.patches if report else ()) for s in one.standins]
    reasons = {stand_in.name: stand_in.reason for stand_in in used}
    for facts in found.facts.values():
        answers = facts.answers
        for noted in (answers.collectives, answers.hidden_buffer) if answers else ():
            reasons |= {s.name: s.reason for s in (noted.stand_ins if noted else ())}
    return reasons


def _in_order(found: Evidence) -> tuple[Boot, ...]:
    """The starts by what they are, whenever they ran: side by side has no order."""
    labels = [state.label for state in found.states]
    servers = [setup.name for setup in found.profile.servers]

    def place(boot: Boot) -> tuple[bool, int, str, int, str, int]:
        timed = boot.round != "" and not found.quick
        where = labels.index(boot.state)
        return (
            timed,
            servers.index(boot.server),
            boot.round,
            boot.block,
            boot.purpose,
            where,
        )

    return tuple(sorted(found.boots, key=place))


def _states(found: Evidence) -> tuple[State, ...]:
    rows = []
    plan = next(iter(found.plans.values()))
    for state in found.states:
        rows.append(
            State(
                label=state.label,
                commit=state.commit,
                content=state.content,
                patches=tuple(entry.number for entry in state.patches),
                served_as=plan.speaks_for.get(state.label, "none"),
                reason=plan.reasons.get(state.label, "does not compile"),
            )
        )
    return tuple(rows)
