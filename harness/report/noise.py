# SPDX-License-Identifier: Apache-2.0
"""``report.md`` of one run of ``make noise``."""

from __future__ import annotations

from harness.models.noise import Noise
from harness.report.markdown import signal_table, table


def render(noise: Noise) -> str:
    """The whole report."""
    machine = noise.machine
    rows = [
        (name, f"{floor:.1%}", f"{noise.finds[name]:.1%}")
        for name, floor in noise.floors.items()
    ]
    return (
        f"# {noise.tag}, profile {noise.profile}: base against base: "
        f"{noise.verdict.value}\n\n"
        f"Repeat with `{noise.command}`. Finished {noise.finished_at} after "
        f"{noise.seconds:.0f} s, on {machine.processor}, {machine.cores} cores, "
        f"{machine.memory_bytes / 2**30:.0f} GiB.\n\n"
        "The unpatched tree was served as if it were two states. Whatever is worse "
        "here is a false alarm.\n\n"
        f"## Noise floor over {noise.pairs} pairs of server starts\n\n"
        + table(("metric", "differs by chance (95%)", "harm found (power 80%)"), rows)
        + "\n## Signals\n\n"
        + signal_table(noise.signals)
    )
