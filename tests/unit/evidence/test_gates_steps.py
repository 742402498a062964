# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from harness.evidence.gates.steps import step_signal
from harness.models.facts import StepFacts
from harness.models.signal import Answer


def test_a_step_is_timed_and_never_judged() -> None:
    fast, slow = StepFacts(count=20, seconds=1.0), StepFacts(count=10, seconds=1.0)
    slower = step_signal(fast, slow, name="server mtp")
    assert slower.name == "server mtp: time per step"
    assert (slower.answer, slower.gated) == (Answer.CANT_TELL, False)
    assert slower.numbers is not None
    assert (slower.numbers.base, slower.numbers.patched) == (50.0, 100.0)
    assert slower.numbers.effect == 2.0
    assert step_signal(slow, fast, name="m").answer is Answer.BETTER_OR_EQUAL
