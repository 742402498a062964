# SPDX-License-Identifier: Apache-2.0
"""``results/cost.md``, from one run of ``make cost``."""

from __future__ import annotations

from harness.models.cost import Cost
from harness.report.markdown import table

_WHAT = {
    "first": "first run, everything measured, environments at hand",
    "unchanged": "unchanged second run",
    "quick": "`QUICK=1`, everything measured",
}


def render(cost: Cost) -> str:
    """The whole page."""
    machine = cost.machine
    runs = [
        (
            _WHAT.get(run.name, run.name),
            f"`{run.command}`",
            f"{run.seconds:.0f} s",
            f"{run.starts} made, {run.reused} reused",
        )
        for run in cost.runs
    ]
    by_hand = [
        (
            one.patch,
            one.side,
            f"{one.start_seconds:.0f} s",
            f"{one.seconds:.0f} s",
            "not made"
            if one.repeated_seconds is None
            else f"{one.repeated_seconds:.0f} s",
        )
        for one in cost.by_hand
    ]
    return (
        f"# What a run costs: {cost.tag}, profile {cost.profile}\n\n"
        f"Repeat with `{cost.command}`. Finished {cost.finished_at} on "
        f"{machine.processor}, {machine.cores} cores.\n\n"
        + table(("run", "command", "time", "server starts"), runs)
        + "\n## By hand\n\n"
        "Server, lm-eval and `vllm bench serve`, one after another, before and after "
        "each patch:\n\n"
        + table(
            ("patch", "side", "ready after", "one start", "further starts"), by_hand
        )
        + f"\n{summary_line(cost)}\n"
    )


def readme_part(cost: Cost) -> str:
    """README's table of what a run costs."""
    rows = [
        (
            _WHAT.get(run.name, run.name),
            f"{run.seconds:.0f} s",
            f"`{make(run.command)}`",
        )
        for run in cost.runs
    ]
    return (
        table(("what", "time", "command"), rows)
        + f"\n{summary_line(cost)} [How it was measured](results/cost.md): "
        f"`{cost.command}`, on {cost.machine.processor}, {cost.machine.cores} cores.\n"
    )


def make(command: str) -> str:
    """A command of verify as one types it."""
    words = command.split()
    settings = [f"PROFILE={words[words.index('--profile') + 1]}"]
    settings += ["FORCE=1"] * ("--force" in words) + ["QUICK=1"] * ("--quick" in words)
    return " ".join(["make verify", *settings])


def summary_line(cost: Cost) -> str:
    """The comparison in one sentence."""
    scaled = (
        ""
        if cost.by_hand_patches == cost.patches
        else f" ({cost.by_hand_patches} measured, and taken {cost.patches} times "
        f"on average)"
    )
    text = (
        f"By hand, one start a side, {cost.patches} patches take "
        f"{cost.by_hand_seconds:.0f} s{scaled}; the first run took "
        f"{cost.runs[0].seconds:.0f} s: {cost.ratio:.2f} of it."
    )
    paired = cost.by_hand_paired_seconds
    if paired is not None and cost.paired_ratio is not None:
        text += (
            f" With as many pairs of starts as the first run makes, by hand takes "
            f"{paired:.0f} s: {cost.paired_ratio:.2f}."
        )
    return text
