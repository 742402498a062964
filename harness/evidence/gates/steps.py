# SPDX-License-Identifier: Apache-2.0
"""How long a step of the server took, before and after; shown, never judged."""

from __future__ import annotations

from harness.models.facts import StepFacts
from harness.models.signal import Answer, Numbers, Signal


def step_signal(base: StepFacts, patched: StepFacts, *, name: str) -> Signal:
    """The mean time per step of all that one start of each state answered.

    One pair of starts has no spread: it can't tell a slow tree from a busy machine.
    """
    before, after = base.mean_ms, patched.mean_ms
    faster = after <= before
    return Signal(
        name=f"{name}: time per step",
        answer=Answer.BETTER_OR_EQUAL if faster else Answer.CANT_TELL,
        reason=f"over {base.count} steps before and {patched.count} after",
        numbers=Numbers(
            unit="ms",
            base=before,
            patched=after,
            effect_unit="ratio",
            effect=after / before,
            n=1,
            n_of="pairs of server starts",
        ),
        gated=False,
    )
