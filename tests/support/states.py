# SPDX-License-Identifier: Apache-2.0
"""An upstream repository in every state that a release can be in for a patch."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from harness.git import Git

PATH = "pkg/model.py"
BASE = "v1.0.0"
STATES = {
    "pristine": "v1.1.0",
    "present": "v1.2.0",
    "edited": "v1.3.0",
    "neighbour": "v1.4.0",
    "conflict": "v1.5.0",
    "renamed": "v1.6.0",
    "deleted": "v1.7.0",
    "partial": "v1.8.0",
    "elsewhere": "v1.9.0",
}
"""State to tag. ``elsewhere``: only far-away lines changed."""

_IDENTITY = {"user.name": "Upstream", "user.email": "upstream@example.org"}
_STEPS = """\
def {name}(x):
    one = x + {a}
    two = one * {b}
    three = two - {c}
    four = three / {d}
    five = four + {e}
    six = five * {f}
    return six


"""
LINE = "    checked(three)\n"
EDITED = "    checked(three, strict=True)\n"


def source(*, repeats: bool) -> str:
    """Four functions; with ``repeats`` their bodies are alike, as model code is."""
    parts = ["# A module.\nSCALE = 1\n\n\n"]
    for i, name in enumerate(("before", "target", "after", "second")):
        first = 1 if repeats else 10 * (i + 1)
        numbers = dict(zip("abcdef", range(first, first + 6), strict=True))
        parts.append(_STEPS.format(name=name, **numbers))
    return "".join(parts)


def insert(text: str, function: str, line: str) -> str:
    """``text`` with ``line`` between ``three`` and ``four`` of ``function``."""
    head, body = text.split(f"def {function}(", 1)
    start = body.index("    four")
    return f"{head}def {function}({body[:start]}{line}{body[start:]}"


def edit(text: str, function: str, old: str, new: str) -> str:
    """``text`` with the first ``old`` in ``function`` replaced."""
    head, body = text.split(f"def {function}(", 1)
    assert old in body
    return f"{head}def {function}({body.replace(old, new, 1)}"


@dataclass(frozen=True)
class Upstream:
    """A repository with one tag per state, and two patches made at BASE.

    Attributes:
        one: Series folder with a patch of one inserted line, in ``target``.
        two: Series folder with a patch that also inserts it in ``second``.
    """

    path: Path
    one: Path
    two: Path
    git: Git


def build(folder: Path, *, repeats: bool, rules: bool = True) -> Upstream:
    """Make the repository; with ``rules`` the patches have structural rules."""
    path = folder / "upstream"
    path.mkdir(parents=True)
    git = Git(path, _IDENTITY)
    git.run("init", "-q", "--template=")
    base = source(repeats=repeats)
    # A second file makes deleting or renaming the first leave a tree behind.
    _commit(git, {PATH: base, "pkg/other.py": "OTHER = 1\n"}, BASE)
    one = insert(base, "target", LINE)
    two = insert(one, "second", LINE)
    series = {}
    for name, text in (("one", one), ("two", two)):
        series[name] = _export(git, folder / name, text)
        if rules:
            functions = ["target"] if name == "one" else ["target", "second"]
            write_rules(series[name], functions)
    trees = {
        "pristine": {PATH: base},
        "present": {PATH: edit(one, "after", "return six", "return six + 1")},
        "edited": {PATH: insert(base, "target", EDITED)},
        "neighbour": {PATH: edit(one, "target", "    four =", "    fourth = four =")},
        "conflict": {PATH: _rewritten(base)},
        "renamed": {PATH: None, "pkg/renamed.py": edit(base, "after", "six", "seven")},
        "deleted": {PATH: None},
        "partial": {PATH: one},
        "elsewhere": {PATH: base.replace("SCALE = 1", "SCALE = 2\nSHIFT = 0")},
    }
    for state, files in trees.items():
        git.run("checkout", "-q", "--detach", BASE)
        _commit(git, files, STATES[state])
    git.run("checkout", "-q", "--detach", BASE)
    return Upstream(path, series["one"], series["two"], git)


def _rewritten(base: str) -> str:
    """The lines on both sides of the insertion are others, and still unchecked."""
    text = edit(base, "target", "    three = two", "    three = abs(two)")
    return edit(text, "target", "    four = three", "    four = 2 * three")


def write_rules(series: Path, functions: list[str]) -> None:
    """Rules for the series' patch: each function has to call ``checked``."""
    (series / "rules").mkdir(exist_ok=True)
    clause = textwrap.indent(
        textwrap.dedent(
            """\
            - says: The function {name} {does} what it computes.
              rule:
                kind: function_definition
                all:
                  - has: {{field: name, regex: ^{name}$}}
                  - {call}
            """
        ),
        "      ",
    )
    call = "has: {stopBy: end, kind: call, has: {field: function, regex: ^checked$}}"
    defects = "".join(
        clause.format(name=n, does="does not check", call=f"not: {{{call}}}")
        for n in functions
    )
    fixes = "".join(clause.format(name=n, does="checks", call=call) for n in functions)
    (patch,) = series.glob("*.patch")
    (series / "rules" / f"{patch.stem}.yaml").write_text(
        f"targets:\n  - path: {PATH}\n    defect:\n{defects}    fix:\n{fixes}"
    )


def _export(git: Git, series: Path, text: str) -> Path:
    git.run("checkout", "-q", "--detach", BASE)
    _commit(git, {PATH: text}, None)
    git.run("format-patch", "-q", "--full-index", "-1", "-o", str(series))
    return series


def _commit(git: Git, files: dict[str, str | None], tag: str | None) -> None:
    for name, text in files.items():
        file = git.folder / name
        file.parent.mkdir(exist_ok=True)
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
    git.run("add", "-A")
    git.run("commit", "-q", "--allow-empty", "-m", f"Make {tag or 'the patch'}")
    if tag:
        git.run("tag", tag)
