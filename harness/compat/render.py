# SPDX-License-Identifier: Apache-2.0
"""The matrix for people: a table in the terminal, and Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from harness.models.compat import (
    ABSORBED,
    FAILED,
    Cell,
    Compatibility,
    HunkState,
    Release,
)

_MEANINGS = (
    ("EXACT", "every target is, byte for byte, what the patch was made for"),
    ("APPLIES", "merges cleanly, and the change is where it belongs"),
    ("MOVED", "merges cleanly into a file that has another path"),
    ("MERGED", "the release has the patch's own text"),
    ("MERGED-MODIFIED", "the release has a form of its own of the change"),
    ("PARTIAL", "some hunks are in, the others still apply"),
    ("NOT-AFFECTED", "what the patch mends is not in the release"),
    ("CONFLICT", "needed, and needs a person"),
    ("MISSING", "a target does not exist, and nothing replaces it"),
    ("BLOCKED", "needs an earlier patch that has no place there"),
    ("AMBIGUOUS", "no one place can be told to be the right one"),
    ("UNKNOWN", "could not be judged; never a verdict"),
)


def terminal_table(result: Compatibility) -> Table:
    """One row per release, one column per patch."""
    table = Table(title=f"made for {result.base or 'an unknown base'}", box=None)
    table.add_column("release", no_wrap=True)
    table.add_column("commit", style="dim", no_wrap=True)
    for number in result.patches:
        table.add_column(number, no_wrap=True)
    for release in result.releases:
        commit = (release.commit or "-")[:10]
        if release.failure:
            table.add_row(release.tag, commit, Text(release.failure, style="red"))
        else:
            cells = [_coloured(release.verdicts[n]) for n in result.patches]
            table.add_row(release.tag, commit, *cells)
    return table


def details(result: Compatibility) -> Iterable[str]:
    """One line per cell that is not EXACT, for the terminal."""
    for release in result.releases:
        for number, cell in release.verdicts.items():
            if cell.signal != "blob ids":
                head = f"{release.tag} {number} {cell.verdict} ({cell.signal})"
                yield f"{head}: {cell.detail}"
                for hunk in cell.hunks:
                    if hunk.state is not HunkState.IN:
                        place = f" in {hunk.symbol}" if hunk.symbol else ""
                        yield (
                            f"    {hunk.path}:{hunk.line}{place}: "
                            f"+{hunk.added} -{hunk.removed} {hunk.state}"
                            f"{': ' + hunk.note if hunk.note else ''}"
                        )
                if cell.hint:
                    yield f"    hint: {cell.hint}"


def markdown(result: Compatibility) -> str:
    """The table with its legend and the reasons, as results/compat.md shows it."""
    lines = _table(result)
    lines += [
        "",
        "Pull requests, as declared (a release's tree alone decides above):",
        "",
    ]
    for number, patch in result.patches.items():
        state = patch.pull_request or "not declared"
        lines.append(f"- {number} {patch.title}: {state}")
    lines += _words(result)
    lines += ["", "What decided, from one release to the next that differs:", ""]
    lines += _reasons(result)
    return "\n".join(lines) + "\n"


def readme_part(result: Compatibility) -> str:
    """The table with its legend, and where the reasons are."""
    why = "Why, patch by patch: [results/compat.md](results/compat.md)."
    return "\n".join([*_table(result), *_words(result), "", why]) + "\n"


def _table(result: Compatibility) -> list[str]:
    numbers = list(result.patches)
    return [
        "| release | commit | " + " | ".join(numbers) + " |",
        "| --- | --- |" + " --- |" * len(numbers),
        *(_row(release, numbers) for release in result.releases),
    ]


def _words(result: Compatibility) -> list[str]:
    used = {cell.verdict.value for r in result.releases for cell in r.verdicts.values()}
    meanings = [f"- {word}: {text}." for word, text in _MEANINGS if word in used]
    return ["", "What the words mean:", "", *meanings]


def _row(release: Release, numbers: list[str]) -> str:
    commit = (release.commit or "-")[:10]
    if release.failure:
        cells = ["not read"] * len(numbers)
    else:
        cells = [release.verdicts[number].verdict.value for number in numbers]
    return f"| {release.tag} | {commit} | " + " | ".join(cells) + " |"


def _reasons(result: Compatibility) -> list[str]:
    lines: list[str] = []
    for number in result.patches:
        previous = None
        for release in result.releases:
            cell = release.verdicts.get(number)
            if cell is None or cell.verdict == previous:
                continue
            previous = cell.verdict
            lines.append(
                f"- {number} from {release.tag}: {cell.verdict} by {cell.signal}"
                f"{': ' + cell.detail if cell.detail else ''}"
            )
    return lines


def _coloured(cell: Cell) -> Text:
    colour = "green"
    if cell.verdict in FAILED:
        colour = "red"
    elif cell.verdict in ABSORBED:
        colour = "cyan"
    return Text(cell.verdict.value, style=colour)
