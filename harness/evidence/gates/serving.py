# SPDX-License-Identifier: Apache-2.0
"""Speed over pairs of server starts: the plan before a run, the answers after it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from harness.evidence.gates.common import ALPHA, answer, bounds, invalid, percent
from harness.evidence.statistics import blocks
from harness.evidence.statistics.blocks import Floats
from harness.evidence.statistics.intervals import Estimate, t_half_width, two_sided
from harness.evidence.statistics.multiplicity import holm
from harness.models.signal import Answer, Numbers, Signal


@dataclass(frozen=True)
class Metric:
    """One figure of a benchmark and what a change of it means.

    ``floor`` is the practical floor: the relative change that matters (0.02 is 2%). On
    the log scale it is ``log(1 + floor)`` both ways. Ungated metrics are shown only.
    """

    name: str
    unit: str
    higher_is_better: bool
    floor: float
    gated: bool = True

    @property
    def log_floor(self) -> float:
        return math.log1p(self.floor)

    def benefit(self, log_ratio: float) -> float:
        """The log ratio turned so that harm is negative."""
        return log_ratio if self.higher_is_better else -log_ratio


@dataclass(frozen=True)
class Blocks:
    """One metric over pairs of server starts: one value a pair in each arm."""

    metric: Metric
    base: Sequence[float]
    patched: Sequence[float]


@dataclass(frozen=True)
class Plan:
    """What a number of pairs can show, at an expected standard deviation of blocks.

    All three are relative changes (0.02 is 2%), or infinite.
    """

    pairs: int
    finds: float
    """The smallest harm found with a power of 80%, Holm over the metrics included."""
    calls_equal: float
    """The smallest floor at which no change at all is called "equal", on average."""

    def line(self, block_sd: float, floor: float) -> str:
        """The line printed before a long run."""
        if self.pairs < 2:
            return (
                "1 pair of server starts shows no spread: it can only raise a suspicion"
            )
        equal = "can" if self.calls_equal < floor else "can't"
        return (
            f"{self.pairs} pairs of server starts, expecting blocks to spread by "
            f"{block_sd:.1%}: finds a harm of {self.finds:.1%} or more (power 80%), "
            f"{equal} call no change equal within {floor:.1%} "
            f"(half-width {self.calls_equal:.1%})"
        )


def plan(
    pairs: int, block_sd: float, *, metrics: int = 3, alpha: float = ALPHA
) -> Plan:
    """What ``pairs`` can show before they are run.

    ``block_sd`` is the standard deviation of the log ratio of one pair, from base
    against base. The first step of Holm's procedure tests at ``alpha / metrics``.
    """
    if pairs < 2:
        return Plan(pairs, math.inf, math.inf)
    found = blocks.mde(pairs, block_sd, alpha=alpha / metrics)
    half = t_half_width(two_sided(alpha), pairs - 1) * block_sd / math.sqrt(pairs)
    return Plan(pairs, math.expm1(found), math.expm1(half))


def serving_signals(
    measured: Sequence[Blocks],
    *,
    noise: Mapping[str, ArrayLike] | None = None,
    spread: float = 0.0,
    alpha: float = ALPHA,
) -> list[Signal]:
    """One signal a metric; "worse" comes unconfirmed (see ``confirm``).

    Worse: the t test on log ratios shows harm, Holm over the gated metrics; from five
    pairs on the exact sign-flip test shows it too (itself with Holm where so many pairs
    can reach that); and the effect is beyond the practical floor and beyond what base
    against base shows. Better or equal: the interval excludes a harm of the floor.

    Args:
        noise: By metric name, the log ratios of pairs of base against base.
        spread: The expected standard deviation of one pair's log ratio. A single pair
            shows none of its own, and is suspected only that far beyond the floor.
    """
    signals: dict[int, Signal] = {}
    logs: dict[int, Floats] = {}
    for index, block in enumerate(measured):
        metric = block.metric
        try:
            logs[index] = blocks.log_ratios(block.base, block.patched)
        except ValueError as error:
            signals[index] = invalid(metric.name, str(error), gated=metric.gated)
            continue
        if logs[index].size < 2:
            signals[index] = _single_pair(block, float(logs.pop(index)[0]), spread)
    tests = _tests(measured, logs, alpha)
    for index, d in logs.items():
        base_logs = (noise or {}).get(measured[index].metric.name)
        signals[index] = _judge(measured[index], d, tests[index], base_logs, alpha)
    return [signals[index] for index in range(len(measured))]


def suspected(signal: Signal) -> bool:
    """Whether fresh starts are worth their time: harm is shown, or is the estimate.

    Few pairs seldom prove a harm. They are a sieve here: what is said in the end rests
    on the fresh starts, so looking twice raises no false alarms.
    """
    if signal.answer is Answer.WORSE:
        return True
    numbers = signal.numbers
    if signal.answer is not Answer.CANT_TELL or not numbers or not numbers.floor:
        return False
    effect, floor = numbers.effect or 1.0, numbers.floor
    return effect < floor if floor < 1 else effect > floor


def confirm(first: Signal, again: Signal) -> Signal:
    """The first answer, settled by a second measurement on fresh server starts.

    Only a suspected harm needs it. "Worse" is said when the second measurement says
    it; a second one that failed leaves the first as it was, and unconfirmed. One that
    excludes the harm clears a mere suspicion, but not a harm that was shown.
    """
    if not suspected(first):
        return first
    shown = first.answer is Answer.WORSE
    if again.answer is Answer.WORSE:
        reason = f"{first.reason}; confirmed on fresh starts: {again.reason}"
        return again.model_copy(update={"confirmed": True, "reason": reason})
    if again.answer is Answer.INVALID:
        reason = f"{first.reason}; the confirmation failed: {again.reason}"
        return first.model_copy(update={"confirmed": not shown, "reason": reason})
    cleared = again.answer is Answer.BETTER_OR_EQUAL and not shown
    reason = f"{first.reason}; not confirmed on fresh starts: {again.reason}"
    answered = Answer.BETTER_OR_EQUAL if cleared else Answer.CANT_TELL
    return again.model_copy(update={"answer": answered, "reason": reason})


@dataclass(frozen=True)
class _Tests:
    """The tests of harm of one metric."""

    t: float
    """Adjusted by Holm if the metric is gated."""
    flip: float | None
    """None with fewer than five pairs."""

    def show_harm(self, alpha: float) -> bool:
        return self.t <= alpha and (self.flip is None or self.flip <= alpha)


def _tests(
    measured: Sequence[Blocks], logs: Mapping[int, Floats], alpha: float
) -> dict[int, _Tests]:
    benefits = {
        i: d if measured[i].metric.higher_is_better else -d for i, d in logs.items()
    }
    t = {i: blocks.t_harm(d) for i, d in benefits.items()}
    flip = {
        i: blocks.sign_flip(d, "less")
        for i, d in benefits.items()
        if d.size >= blocks.SIGN_FLIP_BLOCKS
    }
    # A gated metric that could not be measured still counts as one of the tests.
    family = [i for i, block in enumerate(measured) if block.metric.gated]
    adjusted_t = dict(zip(family, holm([t.get(i, 1.0) for i in family]), strict=True))
    adjusted_flip = dict(
        zip(family, holm([flip.get(i, 1.0) for i in family]), strict=True)
    )
    found = {}
    for i, d in logs.items():
        reachable = blocks.smallest_p(d.size) * len(family) <= alpha
        adjust = i in adjusted_flip and reachable
        found[i] = _Tests(
            t=adjusted_t.get(i, t[i]),
            flip=(adjusted_flip[i] if adjust else flip[i]) if i in flip else None,
        )
    return found


def _judge(
    block: Blocks,
    d: Floats,
    tests: _Tests,
    base_logs: ArrayLike | None,
    alpha: float,
) -> Signal:
    metric = block.metric
    effect = blocks.mean_interval(d, level=two_sided(alpha))
    low, high = sorted((metric.benefit(effect.low), metric.benefit(effect.high)))
    benefit = metric.benefit(effect.value)
    noise = (
        None if base_logs is None else blocks.noise_floor(base_logs, int(d.size)).reach
    )
    beyond = benefit < -max(metric.log_floor, noise or 0.0)
    result = answer(
        harm=tests.show_harm(alpha) and beyond, excluded=low > -metric.log_floor
    )
    flip = "" if tests.flip is None else f", sign flip p={tests.flip:.3g}"
    holm_note = " (Holm)" if metric.gated else ""
    reason = (
        f"{percent(effect.value)} [{percent(effect.low)}, {percent(effect.high)}] over "
        f"{d.size} pairs, floor {percent(metric.log_floor)} of harm, harm "
        f"p={tests.t:.3g}{holm_note}{flip}"
    )
    if result is Answer.CANT_TELL:
        reason += f"; {_why_open(tests, beyond, noise, metric, high, alpha)}"
    return Signal(
        name=metric.name,
        answer=result,
        reason=reason,
        numbers=_numbers(
            block,
            effect,
            tests,
            noise,
            blocks.mde(int(d.size), float(d.std(ddof=1)), alpha=alpha),
        ),
        gated=metric.gated,
        confirmed=result is not Answer.WORSE,
    )


def _why_open(
    tests: _Tests,
    beyond: bool,
    noise: float | None,
    metric: Metric,
    high: float,
    alpha: float,
) -> str:
    if tests.show_harm(alpha) and not beyond:
        if noise is not None and noise > metric.log_floor:
            return f"within what base against base shows ({percent(noise)})"
        return "a harm is shown, below the practical floor at the estimate"
    if high < -metric.log_floor:
        return "too few pairs for the exact test"
    return "the interval holds both no change and a harm that matters"


def _single_pair(block: Blocks, log_ratio: float, spread: float) -> Signal:
    metric = block.metric
    effect = Estimate(log_ratio, -math.inf, math.inf, 0.9)
    return Signal(
        name=metric.name,
        answer=Answer.CANT_TELL,
        reason=f"{percent(log_ratio)} in one pair: no spread, so no interval",
        numbers=_numbers(block, effect, None, None, math.inf, spread=spread),
        gated=metric.gated,
    )


def _numbers(
    block: Blocks,
    effect: Estimate,
    tests: _Tests | None,
    noise: float | None,
    mde: float,
    *,
    spread: float = 0.0,
) -> Numbers:
    """Figures of one metric; logs become ratios, harm beyond the floor included.

    ``spread`` puts the floor so much further out.
    """
    metric = block.metric
    harm = -1 if metric.higher_is_better else 1
    ratio = Estimate(
        math.exp(effect.value),
        math.exp(effect.low),
        math.exp(effect.high) if math.isfinite(effect.high) else math.inf,
        effect.level,
    )
    return Numbers(
        unit=metric.unit,
        base=_geometric_mean(block.base),
        patched=_geometric_mean(block.patched),
        effect_unit="ratio",
        effect=ratio.value,
        interval=bounds(ratio) if math.isfinite(effect.high) else None,
        floor=math.exp(harm * (metric.log_floor + spread)),
        mde=math.exp(harm * mde) if math.isfinite(mde) else None,
        noise=None if noise is None else math.exp(harm * noise),
        p=None if tests is None else max(tests.t, tests.flip or 0.0),
        n=len(block.base),
        n_of="pairs of server starts",
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))
