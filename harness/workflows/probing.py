# SPDX-License-Identifier: Apache-2.0
"""The probe suite on states of the series, or on two trees that the user names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.git import Git
from harness.models.pin import Upstream
from harness.models.series import Series
from harness.models.state import CheckoutState
from harness.paths import Project
from harness.probes.plan import State, label
from harness.probes.workers import Progress
from harness.runtime.environment import Environment
from harness.runtime.overlay import Overlay, prepare
from harness.series.stack import stack
from harness.upstream.worktrees import measured_worktree


def state_trees(
    project: Project,
    upstream: Upstream,
    series: Series,
    applied: CheckoutState,
    states: Iterable[State],
    environment: Environment,
    *,
    say: Progress,
) -> dict[State, Overlay]:
    """A tree that is ready to run for each state, made on first use.

    Args:
        applied: The checkout in ``build/vllm``; its objects are used.
        states: Any subsets of the series, each in its order.

    Raises:
        PatchError: A patch does not apply in a state.
    """
    git = Git(project.checkout.resolve())
    found = {}
    for state in states:
        say(f"preparing the tree {label(state)}")
        entries = [series.patch(number) for number in state]
        done = stack(git, applied.base, entries, project.patches)
        commit = done[-1].commit if done else applied.base
        tree = measured_worktree(git.folder, commit, project.build / "trees")
        found[state] = runner(project, upstream, tree, environment, label(state))
    return found


def runner(
    project: Project,
    upstream: Upstream,
    tree: Path,
    environment: Environment,
    name: str,
) -> Overlay:
    """``tree``, ready to run probes."""
    return prepare(project, tree, environment, upstream.version, label=f"probes-{name}")
