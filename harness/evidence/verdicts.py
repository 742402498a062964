# SPDX-License-Identifier: Apache-2.0
"""From the signals of a patch to its verdict, and from patches to the run's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.models.signal import Answer, Exercise, Judgement, Signal, Verdict

SEVERITY = (
    Verdict.REGRESSED,
    Verdict.INFRASTRUCTURE,
    Verdict.INCONCLUSIVE,
    Verdict.PASS,
)
"""Which verdict speaks for several patches: the first of these that one of them has."""


def combine(signals: Sequence[Signal], exercise: Exercise | None) -> Judgement:
    """The verdict on one patch.

    A confirmed "worse" is a regression even if another measurement failed: it rests on
    its own, valid numbers. A failed measurement alone is neither pass nor regression.
    Nothing passes whose changed lines nothing ran.

    Args:
        exercise: What the measured processes ran of the patch; None when it is not
            known, which is at best inconclusive.
    """
    gated = [signal for signal in signals if signal.gated]
    worse = [s for s in gated if s.answer is Answer.WORSE and s.confirmed]
    unconfirmed = [s for s in gated if s.answer is Answer.WORSE and not s.confirmed]
    failed = [s for s in gated if s.answer is Answer.INVALID]
    open_ = [s for s in gated if s.answer is Answer.CANT_TELL]
    fine = [s for s in gated if s.answer is Answer.BETTER_OR_EQUAL]
    not_run = _not_exercised(exercise)

    reasons = [f"{s.name}: {s.reason}" for s in worse]
    reasons += [f"{s.name} was not measured: {s.reason}" for s in failed]
    reasons += [f"{s.name}: worse, not confirmed yet: {s.reason}" for s in unconfirmed]
    reasons += [f"{s.name}: can't tell: {s.reason}" for s in open_]
    if not_run:
        reasons.append(not_run)
    elif exercise and exercise.executed < exercise.changed:
        left = exercise.changed - exercise.executed
        reasons.append(f"{left} of {exercise.changed} changed lines were not executed")

    if worse:
        verdict = Verdict.REGRESSED
    elif failed or not gated:
        verdict = Verdict.INFRASTRUCTURE
    elif unconfirmed or open_ or not_run:
        verdict = Verdict.INCONCLUSIVE
    else:
        verdict = Verdict.PASS
    if not gated:
        reasons.insert(0, "nothing was measured")
    if fine and verdict is Verdict.PASS:
        names = ", ".join(s.name for s in fine)
        reasons.insert(0, f"better or equal in {names}")
    return Judgement(
        verdict=verdict,
        reasons=tuple(reasons),
        caught_by=_names(worse),
        silent=_names(fine),
        undecided=_names(unconfirmed + open_),
        failed=_names(failed),
        exercise=exercise,
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on all of them; with none, nothing was measured."""
    present = set(verdicts)
    for verdict in SEVERITY:
        if verdict in present:
            return verdict
    return Verdict.INFRASTRUCTURE


def _not_exercised(exercise: Exercise | None) -> str:
    if exercise is None:
        return "not known whether the changed lines were executed"
    if exercise.changed and not exercise.executed:
        return f"not exercised: none of {exercise.changed} changed lines was executed"
    return ""


def _names(signals: Sequence[Signal]) -> tuple[str, ...]:
    return tuple(signal.name for signal in signals)
