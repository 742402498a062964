# SPDX-License-Identifier: Apache-2.0
"""How long a step of the server took, before and after; shown, never judged."""

from __future__ import annotations

from harness.evidence.gates.common import shown
from harness.models.facts import StepFacts
from harness.models.signal import Signal


def step_signal(base: StepFacts, patched: StepFacts, *, name: str) -> Signal:
    """The mean time per step of all that one start of each state answered.

    One pair of starts has no spread: it can't tell a slow tree from a busy machine.
    """
    before, after = base.mean_ms, patched.mean_ms
    return shown(
        f"{name}: time per step",
        before,
        after,
        better=after <= before,
        unit="ms",
        reason=f"over {base.count} steps before and {patched.count} after",
    )
