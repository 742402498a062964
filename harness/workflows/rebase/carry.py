# SPDX-License-Identifier: Apache-2.0
"""Carry the series to another release, patch by patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.compat.base import Base, resolve
from harness.compat.carried import CarriedPatch, read_series
from harness.compat.gittrees import GitReleases, GitTree
from harness.compat.judge import Judgement, check_rules, judge_release
from harness.errors import PatchError, UsageError
from harness.models.compat import ABSORBED, CARRIED, Cell, Verdict
from harness.models.pin import Upstream
from harness.models.rebase import Fate, RebaseState, Step
from harness.models.series import Series
from harness.paths import Project
from harness.series.mail import read_message
from harness.series.stack import stack
from harness.upstream.index import Say
from harness.upstream.source import obtain
from harness.workflows.rebase.release import pin_release
from harness.workflows.rebase.workspace import Workspace

_FOR_A_PERSON = frozenset({Verdict.CONFLICT, Verdict.AMBIGUOUS})


@dataclass(frozen=True)
class Rebase:
    """One series on its way to one release."""

    project: Project
    upstream: Upstream
    series: Series
    workspace: Workspace
    say: Say

    def start(self, tag: str, source: str | None) -> RebaseState:
        """Carry every patch, up to the first conflict.

        Raises:
            PatchError: A conflict is left in the work repository.
            UsageError: There is no such release, or it is the pin itself.
        """
        if tag == self.upstream.tag:
            raise UsageError("is the release that the series is made for", where=tag)
        target, found = pin_release(self.upstream, tag, source, self.say)
        release = obtain(target, found, say=self.say)
        pinned = obtain(self.upstream, found, say=self.say)
        self.workspace.create([release, pinned])
        stacked = stack(
            self.workspace.git, pinned.commit, self.series.patches, self.project.patches
        )
        state = RebaseState(
            target=target,
            base=release.commit,
            old_base=pinned.commit,
            old_head=stacked[-1].commit if stacked else pinned.commit,
        )
        self.workspace.keep(state)
        return self._carry(state)

    def resume(self) -> RebaseState:
        """Take the resolved conflict and go on.

        Raises:
            PatchError: The next conflict is left in the work repository.
            UsageError: No rebase waits, or a conflict marker is still there.
        """
        state = self.workspace.state
        if state is None or state.waiting is None:
            raise UsageError(
                "no rebase waits for you",
                where=str(self.workspace.path),
                fix="start one with `make rebase TAG=vX`",
            )
        entry = self.series.patch(state.waiting)
        message = read_message(self.workspace.git, self.project.patches / entry.file)
        commit = self.workspace.resolved(_head(state), message)
        cell = Cell(
            verdict=Verdict.APPLIES if commit else Verdict.NOT_AFFECTED,
            signal="a person",
            detail="resolved by hand" if commit else "resolved to no change",
        )
        fate = Fate.RESOLVED if commit else Fate.DROPPED
        step = Step(number=entry.number, fate=fate, cell=cell, commit=commit)
        return self._carry(_with(state, step))

    def _carry(self, state: RebaseState) -> RebaseState:
        releases = GitReleases(str(self.workspace.path), prereleases=True)
        pinned = GitTree(self.upstream.tag, releases, state.old_base)
        patches = read_series(self.project.patches, pinned.fingerprints()).patches
        base = resolve(patches, pinned)
        check_rules(patches, base)
        done = {step.number: Judgement(step.cell) for step in state.steps}
        tree = GitTree(state.target.tag, releases, _head(state))
        left = [patch for patch in patches if patch.name not in done]
        judged = judge_release(left, base, tree, pinned.fingerprints(), done)
        for patch in left:
            found = judged[patch.name]
            self.say(f"{patch.name}: {found.cell.verdict} by {found.cell.signal}")
            if found.cell.verdict in _FOR_A_PERSON:
                self._leave_conflict(state, patch, found, base, tree)
            state = _with(state, self._step(state, patch, found))
            self.workspace.keep(state)
        return state

    def _step(self, state: RebaseState, patch: CarriedPatch, found: Judgement) -> Step:
        cell = found.cell
        if cell.verdict in CARRIED:
            message = read_message(self.workspace.git, patch.file)
            commit = self.workspace.commit(_head(state), found.writes, message)
            return Step(number=patch.name, fate=Fate.CARRIED, cell=cell, commit=commit)
        fate = Fate.DROPPED if cell.verdict in ABSORBED else Fate.LEFT
        return Step(number=patch.name, fate=fate, cell=cell)

    def _leave_conflict(
        self,
        state: RebaseState,
        patch: CarriedPatch,
        found: Judgement,
        base: Base,
        tree: GitTree,
    ) -> None:
        self.workspace.keep(state.model_copy(update={"waiting": patch.name}))
        releases = GitReleases(str(self.workspace.path), prereleases=True)
        at_head = GitTree(tree.tag, releases, _head(state))
        files = {}
        for path, version in base.versions.get(patch.name, {}).items():
            where = found.cell.moved.get(path, path)
            theirs = at_head.read(where)
            if theirs is not None and version.before and version.after:
                files[where] = (
                    (theirs,),
                    version.before,
                    version.after,
                )
        branch = f"series/{state.target.tag}"
        self.workspace.show_conflict(_head(state), branch, files)
        raise PatchError(
            f"{found.cell.verdict} at {state.target.tag}: {found.cell.detail}",
            where=patch.name,
            fix=f"resolve it in {self.workspace.path}, then `make rebase "
            f"TAG={state.target.tag} CONTINUE=1`",
        )


def workspace_for(project: Project, tag: str) -> Workspace:
    """Where the rebase to ``tag`` happens."""
    return Workspace(project.build / "rebase" / tag)


def carried_steps(state: RebaseState) -> Sequence[Step]:
    """The steps that made a commit, in order."""
    return [step for step in state.steps if step.commit is not None]


def _head(state: RebaseState) -> str:
    commits = [step.commit for step in state.steps if step.commit is not None]
    return commits[-1] if commits else state.base


def _with(state: RebaseState, step: Step) -> RebaseState:
    return state.model_copy(update={"steps": (*state.steps, step), "waiting": None})
