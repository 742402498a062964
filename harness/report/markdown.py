# SPDX-License-Identifier: Apache-2.0
"""``report.md`` of one run of ``make verify``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.models.signal import (
    Answer,
    Bounds,
    Judgement,
    Numbers,
    Signal,
    Verdict,
)
from harness.models.summary import (
    FileExercise,
    PatchResult,
    ScenarioResult,
    Summary,
)

_ANSWERS = {
    Answer.BETTER_OR_EQUAL: "better or equal",
    Answer.WORSE: "**worse**",
    Answer.CANT_TELL: "can't tell",
    Answer.INVALID: "**not measured**",
}
_VERDICTS = {
    Verdict.PASS: "pass",
    Verdict.REGRESSED: "**regressed**",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.INFRASTRUCTURE: "**not measured**",
}


def render(summary: Summary) -> str:
    """The whole report."""
    quick = ", QUICK" if summary.quick else ""
    parts = [
        f"# {summary.tag}, profile {summary.profile}{quick}: "
        f"{_VERDICTS[summary.verdict]}\n",
        f"Repeat with `{summary.command}`. Finished {summary.finished_at} after "
        f"{summary.seconds:.0f} s.\n",
        _verdicts(summary),
        _limits(summary),
        *(_patch(patch) for patch in summary.patches.values()),
        _states(summary),
        _boots(summary),
        _setting(summary),
    ]
    return "\n".join(part for part in parts if part)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells may hold any text of one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n"
        for line in lines
    )


def _verdicts(summary: Summary) -> str:
    rows = [
        (
            patch.number,
            patch.title,
            _VERDICTS[patch.verdict],
            _ran(patch.exercise),
            patch.judgement.reasons[0],
        )
        for patch in summary.patches.values()
    ]
    head = ("patch", "title", "verdict", "changed lines executed", "first reason")
    return table(head, rows)


def _ran(exercise: Sequence[FileExercise]) -> str:
    changed = sum(len(file.changed) for file in exercise)
    missing = sum(len(file.missing) for file in exercise)
    return f"{changed - missing} of {changed}"


def _limits(summary: Summary) -> str:
    if not summary.limits:
        return ""
    return "## What this run can't show\n\n" + _bullets(summary.limits)


def who_spoke(judgement: Judgement) -> list[str]:
    """Of a regression: which signals caught it, and which stayed silent."""
    if judgement.verdict is not Verdict.REGRESSED:
        return []
    lines = [f"caught by: {', '.join(judgement.caught_by)}"]
    if judgement.silent:
        lines.append(f"silent: {', '.join(judgement.silent)}")
    if judgement.undecided:
        lines.append(f"undecided: {', '.join(judgement.undecided)}")
    return lines


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _patch(patch: PatchResult) -> str:
    parts = [
        f"## {patch.number} {patch.title}\n",
        f"`patches/{patch.file}`: **{patch.verdict.value}**\n",
        _bullets([*patch.judgement.reasons, *who_spoke(patch.judgement)]),
        _compared(patch),
    ]
    if patch.signals:
        parts.append(signal_table(patch.signals))
    if patch.flips:
        kept = (f"[{n}](raw/{name})" for name, n in patch.flips.items())
        parts.append(
            f"Questions right on one side only, with both answers: {', '.join(kept)}.\n"
        )
    if patch.scenarios:
        parts.append(_scenarios(patch.scenarios))
    parts.append(_exercise(patch))
    if patch.claims:
        parts.append("Published figures:\n\n" + _bullets(patch.claims))
    return "\n".join(part for part in parts if part)


def _compared(patch: PatchResult) -> str:
    if patch.before == patch.after:
        text = "No served state differs by this patch."
    else:
        text = f"Served before: `{patch.before}`; after: `{patch.after}`."
    if patch.together_with:
        text += f" Together with {', '.join(patch.together_with)}."
    if patch.imported_by:
        roles = ", ".join(patch.imported_by)
        text += f" Serving processes that import its files: {roles}."
    return text + "\n"


def signal_table(signals: Sequence[Signal]) -> str:
    """Every signal with its figures, one a row."""
    head = ("signal", "before", "after", "effect", "n", "answer", "reason")
    return table(head, [_signal(signal) for signal in signals])


def _signal(signal: Signal) -> tuple[str, ...]:
    name = signal.name if signal.gated else f"{signal.name} (shown only)"
    answer = _ANSWERS[signal.answer]
    if not signal.confirmed:
        answer += ", not confirmed"
    numbers = signal.numbers
    if numbers is None:
        return (name, "", "", "", "", answer, signal.reason)
    return (
        name,
        _value(numbers.base, numbers.unit),
        _value(numbers.patched, numbers.unit),
        _effect(numbers),
        f"{numbers.n} {numbers.n_of}",
        answer,
        signal.reason,
    )


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "share":
        return f"{value:.1%}"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
    return f"{number} {unit}"


def _effect(numbers: Numbers) -> str:
    if numbers.effect is None:
        return ""
    if numbers.effect_unit == "ratio":
        return f"x{numbers.effect:.3f}" + _interval(numbers.interval, "{:.3f}")
    if numbers.unit == "share":
        points = _interval(numbers.interval, "{:+.1%}")
        return f"{numbers.effect:+.1%}{points}"
    return f"{numbers.effect:+.4g}" + _interval(numbers.interval, "{:+.4g}")


def _interval(bounds: Bounds | None, form: str) -> str:
    if bounds is None:
        return ""
    low = "" if bounds.low is None else form.format(bounds.low)
    high = "" if bounds.high is None else form.format(bounds.high)
    return f" [{low}, {high}]"


def _scenarios(scenarios: Sequence[ScenarioResult]) -> str:
    rows = [
        (
            f"`{scenario.name}`",
            str(scenario.changed),
            "<br>".join(scenario.examples) or "every fact is equal",
        )
        for scenario in scenarios
    ]
    head = ("probe scenario", "facts changed", "the first of them, before -> after")
    return table(head, rows)


def _exercise(patch: PatchResult) -> str:
    rows = []
    for file in patch.exercise:
        missing = ", ".join(str(line) for line in file.missing) or "none"
        if file.removed_only:
            missing = "the patch only removes lines here"
        ran = f"{len(file.changed) - len(file.missing)} of {len(file.changed)}"
        rows.append((f"`{file.path}`", ran, missing))
    text = table(("file", "changed lines executed", "not executed (line)"), rows)
    if patch.exercised_by:
        by = ", ".join(f"{name} {n}" for name, n in patch.exercised_by.items())
        text += f"\nChanged lines executed, by measurement: {by}.\n"
    return text


def _states(summary: Summary) -> str:
    rows = [
        (
            f"`{state.label}`",
            f"`{state.commit[:12]}`",
            f"`{state.content[:12]}`",
            f"`{state.served_as}`",
            state.reason,
        )
        for state in summary.states
    ]
    head = ("state", "commit", "content of vllm/", "served as", "why")
    return "## States\n\n" + table(head, rows)


def _boots(summary: Summary) -> str:
    rows = []
    for boot in summary.boots:
        seconds = "" if boot.start_seconds is None else f"{boot.start_seconds:.0f} s"
        block = f", {boot.round} {boot.block}" if boot.block else ""
        came = boot.failure or ("reused" if boot.reused else "measured")
        raw = " ".join(f"[{name.rsplit('/', 1)[-1]}]({name})" for name in boot.raw)
        what = f"{boot.purpose}{block}"
        rows.append((f"`{boot.state}`", boot.server, what, seconds, came, raw))
    head = ("state", "server", "for", "ready after", "outcome", "facts")
    return "## Server starts\n\n" + table(head, rows)


def _setting(summary: Summary) -> str:
    machine = summary.machine
    rows = [
        ("source", f"{summary.source}, base `{summary.base_commit}`"),
        (
            "machine",
            f"{machine.system}, {machine.processor}, {machine.cores} cores, "
            f"{machine.memory_bytes / 2**30:.0f} GiB",
        ),
        ("accelerators", ", ".join(machine.accelerators) or "none"),
        *summary.model.items(),
        *summary.versions.items(),
        *((f"stand-in: {name}", why) for name, why in summary.stand_ins.items()),
    ]
    return "## Setting\n\n" + table(("what", "value"), rows)
