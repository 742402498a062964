# SPDX-License-Identifier: Apache-2.0
"""All measurements of one run, in the order that costs least.

What does not depend on the clock (probes, answers, traced starts) runs side by side,
as much as the profile allows. What is timed runs alone, but for the one pair of a quick
run, which judges nothing. A single pair, which is no more than a sieve, is timed in the
starts that answer: these run alone then, before the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from harness.evidence.gates.serving import plan as expectation
from harness.jobs import Jobs, as_completed, result, wait
from harness.models.boots import BootFacts
from harness.models.noise import Noise
from harness.models.profile import Profile, ServerSetup
from harness.models.series import Series
from harness.workflows.verify.boots import Start
from harness.workflows.verify.claims import Probed
from harness.workflows.verify.executor import Executor
from harness.workflows.verify.judge import Arms, again_name, suspects
from harness.workflows.verify.schedule import (
    answers_start,
    coverage_starts,
    only_start,
    timing_blocks,
)
from harness.workflows.verify.states import (
    QUICK,
    TIMING,
    Comparison,
    Plan,
    TreeState,
    plan,
)

SEED = 20260
"""First of the benchmark's seeds; each block of starts takes the next one."""

CONFIRMING = 1000
"""What the seeds of confirming blocks are ahead of the others."""


@dataclass
class Campaign:
    """One run's measurements.

    Attributes:
        states: Those that can run, the base first.
        pairs: Pairs of starts for timing.
        plans: By the name of the server setup; filled by :meth:`measure`.
    """

    executor: Executor
    series: Series
    profile: Profile
    states: tuple[TreeState, ...]
    quick: bool
    pairs: int
    noise: Noise | None
    say: Callable[[str], None]
    plans: dict[str, Plan] = field(default_factory=dict)

    def measure(self, probe: Callable[[], Probed]) -> Probed:
        """Measure everything; what the probes found is returned.

        Raises:
            HarnessError: The probes could not even be prepared. A server start that
                failed is noted with the executor.
        """
        if self.quick:
            return self._quick(probe)
        self._foretell()
        once = self.pairs == 1
        probed = self._one_start_each(probe) if once else self._untimed(probe)
        for setup in self.profile.servers:
            chosen = self.plans.get(setup.name)
            if setup.serving and chosen and chosen.comparisons:
                if not once:
                    self._timed(setup, chosen)
                self._confirm(setup, chosen)
        return probed

    def _foretell(self) -> None:
        """Say what the pairs can show, before anything is started."""
        gates = self.profile.gates
        spread = gates.expected_spread
        for what, pairs in (
            ("speed", self.pairs),
            ("what looks worse is timed again", gates.pairs.confirm),
        ):
            line = expectation(pairs, spread).line(spread, gates.throughput_floor)
            self.say(f"{what}: {line}")

    def _quick(self, probe: Callable[[], Probed]) -> Probed:
        """One start for each state: its timing is one pair, and judges nothing."""
        base = self.states[0]

        def start(state: TreeState, setup: ServerSetup) -> Start:
            peers = (base.content, self._last(setup).content)
            return only_start(state, setup, seed=SEED, name=QUICK, peers=peers)

        with Jobs(self.profile.jobs) as jobs:
            for setup in self.profile.served(quick=True):
                last = self._last(setup)
                ahead = [last] if self.profile.jobs > 1 and last is not base else []
                first = jobs.submit(self.executor.run, start(base, setup))
                # Side by side, the whole series is served before it is known whether
                # a server imports any of it: it nearly always does.
                for state in ahead:
                    jobs.submit(self.executor.run, start(state, setup))
                chosen = self._planned(setup, result(first))
                for state in chosen.served[1:]:
                    if state not in ahead:
                        jobs.submit(self.executor.run, start(state, setup))
                self._trace(jobs, setup, chosen.comparisons)
            return result(jobs.submit(probe))

    def _one_start_each(self, probe: Callable[[], Probed]) -> Probed:
        """Timing and answers of a state in one start, alone; then what has no clock:
        traced starts, and the servers that no benchmark runs on."""
        peers = tuple(state.content for state in self.states)

        def run(state: TreeState, setup: ServerSetup) -> BootFacts | None:
            start = only_start(state, setup, seed=SEED, name=TIMING, peers=peers)
            return self.executor.run(start)

        clocked = tuple(setup for setup in self.profile.servers if setup.serving)
        for setup in clocked:
            chosen = self._planned(setup, run(self.states[0], setup))
            for state in chosen.served[1:]:
                run(state, setup)
        return self._untimed(probe, but=clocked)

    def _last(self, setup: ServerSetup) -> TreeState:
        """The last state that this server may get."""
        own = [
            state
            for state in self.states[1:]
            if not setup.patches or state.patches[-1].number in setup.patches
        ]
        return own[-1] if own else self.states[0]

    def _untimed(
        self, probe: Callable[[], Probed], *, but: tuple[ServerSetup, ...] = ()
    ) -> Probed:
        """Probes, answers and traced starts; the answers of ``but`` are there."""
        base = self.states[0]
        with Jobs(self.profile.jobs) as jobs:
            probing = jobs.submit(probe)
            # The base is served first: what it imports decides what else is served.
            firsts = {
                jobs.submit(self.executor.run, answers_start(base, setup)): setup
                for setup in self.profile.servers
                if setup not in but
            }
            answers: dict[str, list[Future[BootFacts | None]]] = {}
            for first in as_completed(firsts):
                setup = firsts[first]
                chosen = self._planned(setup, first.result())
                answers[setup.name] = [
                    jobs.submit(self.executor.run, answers_start(state, setup))
                    for state in chosen.served[1:]
                ]
            for setup in self.profile.servers:
                wait(answers.get(setup.name, ()))
                self._trace(jobs, setup, self._answered(setup))
            return result(probing)

    def _planned(self, setup: ServerSetup, first: BootFacts | None) -> Plan:
        """What is served next; nothing more, if the base could not be served."""
        executed = {
            path for path in self.series.paths() if first and first.proof.executed(path)
        }
        chosen = plan(
            self.states,
            frozenset(executed),
            quick=self.quick,
            only=frozenset(setup.patches),
        )
        self.plans[setup.name] = chosen
        return chosen

    def _answered(self, setup: ServerSetup) -> tuple[Comparison, ...]:
        """Comparisons whose changed state could be served."""
        return tuple(
            comparison
            for comparison in self.plans[setup.name].comparisons
            if self.executor.note(comparison.after.label, setup.name).answers
        )

    def _trace(
        self, jobs: Jobs, setup: ServerSetup, comparisons: Sequence[Comparison]
    ) -> None:
        if setup.traced:
            for start in coverage_starts(comparisons, setup):
                jobs.submit(self.executor.run, start)

    def _timed(self, setup: ServerSetup, chosen: Plan) -> None:
        """Blocks of all served states."""
        for block in timing_blocks(chosen.served, setup, count=self.pairs, seed=SEED):
            self.executor.run_block(block)

    def _confirm(self, setup: ServerSetup, chosen: Plan) -> None:
        """Fresh pairs of those that look worse."""
        for comparison in chosen.comparisons:
            suspected = suspects(self._arms(comparison, setup))
            if suspected:
                self.say(
                    f"{comparison.name}: {suspected[0]} looks worse; measuring again"
                )
                for block in timing_blocks(
                    (comparison.before, comparison.after),
                    setup,
                    count=self.profile.gates.pairs.confirm,
                    seed=SEED + CONFIRMING,
                    name=again_name(comparison.name),
                ):
                    self.executor.run_block(block)

    def _arms(self, comparison: Comparison, setup: ServerSetup) -> Arms:
        return Arms(
            comparison.name,
            setup,
            self.profile.gates,
            self.quick,
            self.executor.note(comparison.before.label, setup.name),
            self.executor.note(comparison.after.label, setup.name),
            noise=self.noise,
        )
