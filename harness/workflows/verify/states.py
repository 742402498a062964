# SPDX-License-Identifier: Apache-2.0
"""The states of the tree that are measured: n patches make n + 1."""

from __future__ import annotations

import ast
import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path

from harness.git import Git
from harness.models.series import PatchEntry, Series
from harness.models.state import CheckoutState
from harness.paths import Project
from harness.upstream.worktrees import measured_worktree

BASE = "base"
QUICK = "quick"
"""Name of the one comparison of a quick run, and of its one round of timing."""
TIMING = "timing"
"""Name of the round of timing that every served state takes part in."""


@dataclass(frozen=True)
class TreeState:
    """The pinned tree with the first so many patches on it.

    Attributes:
        label: ``base``, or the number of the last patch.
        commit: Its commit in ``build/vllm``.
        content: sha256 over path and blob id of every Python file below ``vllm/``.
        patches: The patches in it, in order.
        blobs: Blob id of every file that any patch of the series touches.
        twin: Measured beside another state of the same content, to compare the two.
    """

    label: str
    commit: str
    content: str
    patches: tuple[PatchEntry, ...]
    blobs: dict[str, str]
    twin: bool = False

    def worktree(self, project: Project) -> Path:
        """A clean worktree of this state, made on first use."""
        repository = project.checkout.resolve()
        return measured_worktree(repository, self.commit, project.build / "trees")


def series_states(
    project: Project, series: Series, applied: CheckoutState
) -> tuple[TreeState, ...]:
    """The base and the state after each patch, in order."""
    git = Git(project.checkout.resolve())
    paths = series.paths()
    states = [tree_state(git, BASE, applied.base, (), paths)]
    for entry in series.patches:
        commit = applied.commits[entry.number]
        patches = (*states[-1].patches, entry)
        states.append(tree_state(git, entry.number, commit, patches, paths))
    return tuple(states)


def tree_state(
    git: Git,
    label: str,
    commit: str,
    patches: tuple[PatchEntry, ...],
    paths: tuple[str, ...],
) -> TreeState:
    """Describe ``commit``; ``paths`` are the files whose blobs are recorded."""
    listing = git.text("ls-tree", "-r", "--full-tree", commit, "vllm")
    blobs: dict[str, str] = {}
    digest = hashlib.sha256()
    for line in listing.splitlines():
        meta, path = line.split("\t", 1)
        if path.endswith(".py"):
            blob = meta.split(" ")[2]
            digest.update(f"{path} {blob}\n".encode())
            if path in paths:
                blobs[path] = blob
    return TreeState(label, commit, digest.hexdigest(), patches, blobs)


def syntax_errors(git: Git, state: TreeState) -> dict[str, str]:
    """Files among the recorded ones that Python can't compile, with the reason."""
    found = {}
    for path in state.blobs:
        source = git.run("cat-file", "blob", f"{state.commit}:{path}").stdout
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(source, filename=path)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f"{path}:{line}" if line else path
            found[path] = f"{where}: {type(error).__name__}: {error.args[0]}"
    return found


@dataclass(frozen=True)
class Comparison:
    """Two states, and the patches that make the difference."""

    name: str
    before: TreeState
    after: TreeState
    patches: tuple[PatchEntry, ...]


@dataclass(frozen=True)
class Plan:
    """Which states are served and compared.

    Attributes:
        served: The states that get servers, in order.
        speaks_for: For each state's label, the label of the one served in its place.
        reasons: For each state's label, why.
        comparisons: What is compared, each of served states.
    """

    served: tuple[TreeState, ...]
    speaks_for: dict[str, str]
    reasons: dict[str, str]
    comparisons: tuple[Comparison, ...]


def plan(
    states: tuple[TreeState, ...],
    executed: frozenset[str],
    *,
    quick: bool,
    only: frozenset[str] = frozenset(),
) -> Plan:
    """Decide which states need servers of their own.

    A patch none of whose files a serving process imports can't change what is served,
    so the state after it is not served again.

    Args:
        states: From :func:`series_states`.
        executed: Files that the base's serving processes import.
        quick: Serve the base and the whole series only, and judge the patches that
            are executed together.
        only: Patches that get a state of their own here; none means all. Others that
            are executed are judged together with the next of these, or not here.
    """
    served = [states[0]]
    speaks = {BASE: BASE}
    reasons = {BASE: "the unpatched tree"}
    comparisons: list[Comparison] = []
    passed: list[PatchEntry] = []
    for state in states[1:]:
        entry = state.patches[-1]
        if not any(target.path in executed for target in entry.targets):
            reasons[state.label] = (
                f"no serving process imports a file of {entry.number}; "
                f"{served[-1].label} speaks for it"
            )
        elif only and entry.number not in only:
            passed.append(entry)
            reasons[state.label] = (
                f"{entry.number} is left to other servers; {served[-1].label} speaks "
                "for it"
            )
        else:
            name = f"{served[-1].label}-{state.label}"
            patches = (*passed, entry)
            comparisons.append(Comparison(name, served[-1], state, patches))
            passed = []
            served.append(state)
            reasons[state.label] = f"serving processes import a file of {entry.number}"
        speaks[state.label] = served[-1].label
    if quick and comparisons:
        return _quick(states, comparisons, served, reasons)
    return Plan(tuple(served), speaks, reasons, tuple(comparisons))


def _quick(
    states: tuple[TreeState, ...],
    comparisons: list[Comparison],
    served: list[TreeState],
    reasons: dict[str, str],
) -> Plan:
    patches = tuple(patch for c in comparisons for patch in c.patches)
    first, last = served[0], served[-1]
    speaks: dict[str, str] = {}
    for state in states:
        before = state.label == BASE or state.label < patches[0].number
        speaks[state.label] = first.label if before else last.label
        if state in served[1:-1]:
            reasons[state.label] = f"QUICK: measured together with {last.label}"
    whole = Comparison(QUICK, first, last, patches)
    return Plan((first, last), speaks, reasons, (whole,))
