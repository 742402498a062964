# SPDX-License-Identifier: Apache-2.0
"""What a finished rebase leaves in ``patches/<tag>/``."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from ruamel.yaml import YAML

from harness.errors import InfrastructureError
from harness.git import Git
from harness.models.pin import Upstream
from harness.models.rebase import Fate, Rebased, RebaseState, Step
from harness.models.series import PatchEntry, Series
from harness.paths import Project
from harness.series.export import changed_targets, export
from harness.series.stack import stack
from harness.upstream.source import blob_at
from harness.workflows.rebase.carry import Rebase, carried_steps
from harness.workflows.rebase.environment import write_locks

RULES = "rules"


def finish(rebase: Rebase, state: RebaseState) -> Path:
    """Write the carried patches, their pin and the report, whole or not at all.

    Returns:
        The folder of the new set.

    Raises:
        PatchError: The exported patches do not give the commits they came from.
    """
    git = rebase.workspace.git
    entries = _entries(rebase.series, state, git)
    target = state.target.model_copy(
        update={"targets": _first_blobs(entries, git, state.base)}
    )
    home = rebase.project.root / "patches" / target.tag
    home.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rebase-", dir=home.parent) as folder:
        fresh = Path(folder) / target.tag
        fresh.mkdir()
        for step, entry in zip(carried_steps(state), entries, strict=True):
            assert step.commit is not None
            data = export(git, step.commit, entry, target)
            (fresh / entry.file).write_bytes(data)
        _write_set(fresh, rebase.project, entries, target)
        if entries:
            write_locks(
                rebase.project,
                rebase.upstream,
                target,
                fresh / "requirements",
                rebase.say,
            )
        applied = stack(git, state.base, entries, fresh)
        if [a.commit for a in applied] != [s.commit for s in carried_steps(state)]:
            raise InfrastructureError(
                "the exported patches give other commits than they came from",
                where=str(rebase.workspace.path),
            )
        rebased = Rebased(
            tag=target.tag,
            base=rebase.upstream.tag,
            commit=target.commit,
            steps=state.steps,
            range_diff=_range_diff(git, state),
        )
        (fresh / "rebase.json").write_text(rebased.model_dump_json(indent=2) + "\n")
        (fresh / "rebase.md").write_text(report(rebased, rebase.series))
        shutil.rmtree(home, ignore_errors=True)
        fresh.rename(home)
    return home


def report(rebased: Rebased, series: Series) -> str:
    """The rebase for a reviewer, in Markdown."""
    lines = [
        f"# The series at {rebased.tag}",
        "",
        f"Carried from {rebased.base} to {rebased.tag} (commit {rebased.commit}).",
        "",
        "| patch | became | verdict | decided by | evidence |",
        "| --- | --- | --- | --- | --- |",
    ]
    for step in rebased.steps:
        title = series.patch(step.number).file.removesuffix(".patch")
        evidence = _evidence(step).replace("|", "\\|")
        lines.append(
            f"| {title} | {step.fate} | {step.cell.verdict} | {step.cell.signal} "
            f"| {evidence} |"
        )
    lines += [
        "",
        "A dropped patch is one that the release has, or does not need; the evidence "
        "is what its structural rules found in the release's files.",
        "",
        f"`git range-diff` from the series at {rebased.base}:",
        "",
        "```text",
        *(line.rstrip() for line in rebased.range_diff),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _evidence(step: Step) -> str:
    if step.fate is Fate.LEFT and not step.cell.detail:
        return "it has no place in the release"
    moved = "".join(f"; {a} is now {b}" for a, b in step.cell.moved.items())
    return (step.cell.detail or "every target equals its pre-image") + moved


def _entries(series: Series, state: RebaseState, git: Git) -> list[PatchEntry]:
    steps = carried_steps(state)
    carried = {step.number for step in steps}
    entries = []
    for step in steps:
        entry = series.patch(step.number)
        assert step.commit is not None
        update = {
            "targets": changed_targets(git, step.commit),
            "requires": tuple(n for n in entry.requires if n in carried),
        }
        entries.append(entry.model_copy(update=update))
    return entries


def _first_blobs(entries: list[PatchEntry], git: Git, base: str) -> dict[str, str]:
    paths = sorted({target.path for entry in entries for target in entry.targets})
    blobs = {path: blob_at(git, base, path) for path in paths}
    return {path: blob for path, blob in blobs.items() if blob is not None}


def _write_set(
    folder: Path, project: Project, entries: list[PatchEntry], target: Upstream
) -> None:
    header = (
        f"# Written by `make rebase TAG={target.tag}` from the series at its pin;\n"
        "# rebase.md says what became of each patch.\n"
    )
    series = Series(base=target.tag, patches=tuple(entries))
    for name, model in (("series.yaml", series), ("upstream.yaml", target)):
        plain = model.model_dump(mode="json", exclude_defaults=True)
        buffer = io.StringIO()
        yaml = YAML()
        yaml.width = 88
        yaml.indent(mapping=2, sequence=4, offset=2)
        yaml.dump(plain, buffer)
        (folder / name).write_text(header + buffer.getvalue())
    for entry in entries:
        rules = project.patches / RULES / f"{entry.number}.yaml"
        if rules.exists():
            (folder / RULES).mkdir(exist_ok=True)
            shutil.copyfile(rules, folder / RULES / rules.name)


def _range_diff(git: Git, state: RebaseState) -> tuple[str, ...]:
    commits = [step.commit for step in carried_steps(state)]
    if not commits:
        return ("nothing is carried",)
    return tuple(
        git.text(
            "range-diff",
            "--no-color",
            "--no-notes",
            f"{state.old_base}..{state.old_head}",
            f"{state.base}..{commits[-1]}",
        ).splitlines()
    )
