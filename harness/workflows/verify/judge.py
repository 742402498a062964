# SPDX-License-Identifier: Apache-2.0
"""From the facts of two states to the signals on the patches between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from harness.errors import InfrastructureError
from harness.evidence.gates.acceptance import (
    acceptance_signals,
    decay_signal,
    floor_signal,
)
from harness.evidence.gates.accuracy import accuracy_signal, rate_signals
from harness.evidence.gates.collectives import collective_signal
from harness.evidence.gates.common import invalid
from harness.evidence.gates.exact import logprob_signal
from harness.evidence.gates.hidden_buffer import hidden_buffer_signal
from harness.evidence.gates.memory import memory_signals
from harness.evidence.gates.serving import (
    Blocks,
    Metric,
    confirm,
    serving_signals,
    suspected,
)
from harness.evidence.gates.steps import step_signal
from harness.evidence.pairing import Pair, pair
from harness.evidence.statistics.acceptance import Acceptance
from harness.evidence.statistics.blocks import log_ratios
from harness.evidence.statistics.logprobs import GreedyAnswer
from harness.models.boots import BootFacts, Part
from harness.models.facts import (
    AcceptanceFacts,
    AccuracyFacts,
    Outcome,
    ServingFacts,
)
from harness.models.gates import Gates
from harness.models.noise import Noise
from harness.models.profile import ServerSetup
from harness.models.series import CollectiveClaim, HiddenBufferClaim
from harness.models.signal import Answer, Signal
from harness.workflows.verify.states import QUICK, TIMING

_RATES = (Outcome.TRUNCATED, Outcome.EMPTY, Outcome.UNEXTRACTABLE)


@dataclass
class StateFacts:
    """All that was measured of one state on one server setup.

    ``timings`` maps the round and the number of the block to the start's facts.
    ``failures`` holds one line for every part that could not be measured, ``death``
    the exception that ended the server in two fresh starts, if one did.
    """

    answers: BootFacts | None = None
    timings: dict[tuple[str, int], BootFacts] = field(default_factory=dict)
    coverage: BootFacts | None = None
    failures: dict[str, str] = field(default_factory=dict)
    death: str = ""


@dataclass(frozen=True)
class Arms:
    """What is compared."""

    comparison: str
    setup: ServerSetup
    gates: Gates
    quick: bool
    before: StateFacts
    after: StateFacts
    claims: tuple[CollectiveClaim, ...] = ()
    buffer_claims: tuple[HiddenBufferClaim, ...] = ()
    noise: Noise | None = None


def compare(arms: Arms) -> list[Signal]:
    """Every signal of one comparison; what was not measured is invalid, not absent."""
    signals = _death(arms)
    for cell in arms.setup.accuracy:
        signals += _guarded(arms, "accuracy", cell.name, _accuracy)
    if arms.setup.speculation:
        for drafted in arms.setup.acceptance:
            signals += _guarded(arms, "acceptance", drafted.name, _acceptance)
    exact = _collectives(arms) + _hidden_buffer(arms)
    shown = _memory(arms) + _steps(arms)
    return signals + exact + shown + serving_signals_of(arms)


def _guarded(
    arms: Arms,
    kind: str,
    cell: str,
    judge: Callable[[Arms, str, str, BootFacts, BootFacts], list[Signal]],
) -> list[Signal]:
    name = f"{kind} {arms.setup.name}/{cell}"
    for side in (arms.before, arms.after):
        if side.answers is None:
            reason = side.failures.get("answers", "no server was started for it")
            return [invalid(name, reason)]
    assert arms.before.answers is not None
    assert arms.after.answers is not None
    try:
        return judge(arms, name, cell, arms.before.answers, arms.after.answers)
    except InfrastructureError as error:
        return [invalid(name, error.line())]


def _accuracy(
    arms: Arms, name: str, cell: str, before: BootFacts, after: BootFacts
) -> list[Signal]:
    base, patched = find_cell(before.accuracy, cell), find_cell(after.accuracy, cell)
    pairs = pair(base, patched)
    own = next(c.margin for c in arms.setup.accuracy if c.name == cell)
    margin = (own or arms.gates.accuracy_margin).of(quick=arms.quick)
    signals = [
        accuracy_signal(
            [p.base.outcome is Outcome.RIGHT for p in pairs],
            [p.patched.outcome is Outcome.RIGHT for p in pairs],
            name=name,
            margin=margin,
        )
    ]
    events = {
        f"{name}: {outcome.value}": (
            [p.base.outcome is outcome for p in pairs],
            [p.patched.outcome is outcome for p in pairs],
        )
        for outcome in _RATES
    }
    signals += rate_signals(events, margin=margin)
    if all(p.base.token_logprobs and p.patched.token_logprobs for p in pairs):
        signals.append(
            logprob_signal(
                [_greedy(p, patched=False) for p in pairs],
                [_greedy(p, patched=True) for p in pairs],
                tolerance=arms.gates.logprob_tolerance,
                name=f"{name}: log-probabilities",
            )
        )
    return signals


def _greedy(both: Pair, *, patched: bool) -> GreedyAnswer:
    """An answer as the gate wants it: equal texts have equal tokens.

    The text is all that is kept of the tokens, so where the texts differ, every token
    counts as another one from the first on. Where they are equal, one may be reported
    with more tokens than the other: a step that drafts goes on past the stop string.
    """
    sides = both.base.token_logprobs, both.patched.token_logprobs
    logprobs = sides[int(patched)]
    if not both.same_text:
        return GreedyAnswer([-1 - int(patched)] * len(logprobs), logprobs)
    length = min(map(len, sides))
    return GreedyAnswer(range(length), logprobs[:length])


def _acceptance(
    arms: Arms, name: str, cell: str, before: BootFacts, after: BootFacts
) -> list[Signal]:
    base, patched = (
        find_cell(before.acceptance, cell),
        find_cell(after.acceptance, cell),
    )
    if base.prompts_sha256 != patched.prompts_sha256:
        return [invalid(name, "the two states were asked other prompts")]
    counts, floor = (_counts(base), _counts(patched)), arms.gates.acceptance_floor
    signals = [
        *acceptance_signals(*counts, name=name, floor=floor),
        decay_signal(*counts, name=f"{name}: decay", floor=floor),
    ]
    if base.batches == patched.batches:
        accepted = " and ".join(
            f"{count:g}" for count in counts[0].accepted.sum(axis=0)
        )
        drafts = f"{counts[0].drafts.sum():g} drafts, accepted by position: {accepted}"
        same = f"every batch has the same counts: {drafts}"
        equal = {"answer": Answer.BETTER_OR_EQUAL, "reason": same}
        signals = [s.model_copy(update=equal) for s in signals]
    lowest = next(c.lowest_rates for c in arms.setup.acceptance if c.name == cell)
    if lowest:
        signals.append(floor_signal(counts[1], lowest, name=f"{name}: absolute floor"))
    return signals


def _death(arms: Arms) -> list[Signal]:
    """A server that dies each time, though the one of the state before serves."""
    if arms.before.answers is None or not arms.after.death:
        return []
    reason = f"two fresh starts of {arms.setup.name} died of {arms.after.death}"
    return [
        Signal(
            name=f"server {arms.setup.name} lives", answer=Answer.WORSE, reason=reason
        )
    ]


def _collectives(arms: Arms) -> list[Signal]:
    before, after = arms.before.answers, arms.after.answers
    if not (before and after and before.collectives and after.collectives):
        # Not counted by this profile; a failed start is told of by the other cells.
        return []
    name = f"collectives of the draft, {arms.setup.name}"
    return [
        collective_signal(before.collectives, after.collectives, arms.claims, name=name)
    ]


def _hidden_buffer(arms: Arms) -> list[Signal]:
    before, after = arms.before.answers, arms.after.answers
    if not (before and after and before.hidden_buffer and after.hidden_buffer):
        # Not watched by this profile; a failed start is told of by the other cells.
        return []
    spec = arms.setup.speculation
    return [
        hidden_buffer_signal(
            before.hidden_buffer,
            after.hidden_buffer,
            arms.buffer_claims,
            method=spec.method if spec else None,
            name=f"hidden-state buffer, {arms.setup.name}",
        )
    ]


def _memory(arms: Arms) -> list[Signal]:
    before, after = arms.before.answers, arms.after.answers
    if not (before and after and before.memory and after.memory):
        # A failed start is told of by the other cells.
        return []
    name = f"memory {arms.setup.name}"
    return memory_signals(before.memory, after.memory, name=name)


def _steps(arms: Arms) -> list[Signal]:
    before, after = arms.before.answers, arms.after.answers
    if not (before and after and before.steps and after.steps):
        return []
    name = f"server {arms.setup.name}"
    return [step_signal(before.steps, after.steps, name=name)]


def _counts(facts: AcceptanceFacts) -> Acceptance:
    return Acceptance.of(
        [batch.drafts for batch in facts.batches],
        [batch.accepted_by_position for batch in facts.batches],
    )


def serving_signals_of(arms: Arms) -> list[Signal]:
    """The speed signals of one comparison, over all its benchmark cells."""
    return [s for cell in arms.setup.serving for s in _serving(arms, cell.name)]


def _serving(arms: Arms, cell: str) -> list[Signal]:
    name = f"serving {arms.setup.name}/{cell}"
    failed = [
        line
        for side in (arms.before, arms.after)
        for part, line in side.failures.items()
        if part == Part.TIMING
    ]
    signals = _speed(arms, name, cell, QUICK if arms.quick else TIMING)
    if failed or signals is None:
        reason = failed[0] if failed else "no pair of server starts was measured"
        return [invalid(name, reason)]
    again = _speed(arms, name, cell, again_name(arms.comparison))
    if again is not None:
        signals = [confirm(a, b) for a, b in zip(signals, again, strict=True)]
    if arms.gates.serving_accuses_only:
        # On this machine speed says little of a GPU: it may accuse, never acquit.
        return [
            s.model_copy(update={"gated": s.gated and s.answer is Answer.WORSE})
            for s in signals
        ]
    return signals


def again_name(comparison: str) -> str:
    """Under which name the starts that confirm a comparison's "worse" are kept."""
    return f"{comparison}-again"


def suspects(arms: Arms) -> list[str]:
    """Gated speeds of the first round that are worse, or seem so."""
    found = []
    for cell in arms.setup.serving:
        name = f"serving {arms.setup.name}/{cell.name}"
        signals = _speed(arms, name, cell.name, TIMING) or []
        found += [s.name for s in signals if s.gated and suspected(s)]
    return found


def speed_logs(arms: Arms) -> dict[str, tuple[float, ...]]:
    """Log ratios of every speed, one for each pair of the first round."""
    found = {}
    for cell in arms.setup.serving:
        name = f"serving {arms.setup.name}/{cell.name}"
        for block in _blocks(arms, name, cell.name, TIMING):
            logs = log_ratios(block.base, block.patched)
            found[block.metric.name] = tuple(float(value) for value in logs)
    return found


def _speed(arms: Arms, name: str, cell: str, round_name: str) -> list[Signal] | None:
    measured = _blocks(arms, name, cell, round_name)
    noise = arms.noise.log_ratios if arms.noise else None
    if not measured:
        return None
    spread = arms.gates.expected_spread
    return serving_signals(measured, noise=noise, spread=spread)


def _blocks(arms: Arms, name: str, cell: str, round_name: str) -> list[Blocks]:
    both = arms.before.timings.keys() & arms.after.timings.keys()
    pairs = sorted(pair for pair in both if pair[0] == round_name)
    if not pairs:
        return []
    base = [find_cell(arms.before.timings[n].serving, cell) for n in pairs]
    patched = [find_cell(arms.after.timings[n].serving, cell) for n in pairs]
    return [
        Blocks(metric, [read(f) for f in base], [read(f) for f in patched])
        for metric, read in _metrics(name, arms.gates)
    ]


def _metrics(
    name: str, gates: Gates
) -> list[tuple[Metric, Callable[[ServingFacts], float]]]:
    speed, latency = gates.throughput_floor, gates.latency_floor

    def metric(
        text: str, unit: str, floor: float, *, higher: bool = False, gated: bool = True
    ) -> Metric:
        return Metric(f"{name}: {text}", unit, higher, floor, gated)

    return [
        (
            metric("output throughput", "tokens/s", speed, higher=True),
            lambda facts: facts.output_tokens_per_second,
        ),
        (metric("median TPOT", "ms", latency), lambda facts: facts.tpot.median),
        (metric("median TTFT", "ms", latency), lambda facts: facts.ttft.median),
        (
            metric("p99 TTFT", "ms", latency, gated=False),
            lambda facts: facts.ttft.p99,
        ),
        (metric("median ITL", "ms", latency, gated=False), lambda f: f.itl.median),
    ]


F = TypeVar("F", AccuracyFacts, AcceptanceFacts, ServingFacts)


def find_cell(facts: Sequence[F], cell: str) -> F:
    """The facts of one cell.

    Raises:
        InfrastructureError: It was not measured.
    """
    for one in facts:
        if one.cell == cell:
            return one
    raise InfrastructureError("was not measured", where=f"cell {cell}")
