# SPDX-License-Identifier: Apache-2.0
"""build/vllm: the checkout with the series on it, switched in whole or not at all.

``build/vllm`` is a link to a repository of its own below ``build/.trees``. A new state
is built beside the old one and the link is replaced in one step, so a failure or a
kill at any moment leaves the previous state.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.files import locked, write_atomic
from harness.git import Git
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.series import Series
from harness.models.state import CheckoutState
from harness.paths import Project
from harness.series.stack import Applied, stack
from harness.upstream.index import Say
from harness.upstream.source import SourceRepository, check_identity, obtain

_STATE = "harness-state.json"


@dataclass(frozen=True)
class Checkout:
    """An applied checkout.

    Attributes:
        path: ``build/vllm``.
        state: What apply recorded.
        changed: False when everything was in place already.
    """

    path: Path
    state: CheckoutState
    changed: bool

    @property
    def git(self) -> Git:
        return Git(self.path.resolve())


def apply(
    project: Project,
    upstream: Upstream,
    series: Series,
    *,
    source: str | None,
    discard: bool = False,
    say: Say,
) -> Checkout:
    """Bring ``build/vllm`` to the pinned tree with the whole series on it.

    Args:
        source: See ``harness.upstream.source.obtain``; None keeps the source of an
            existing checkout.
        discard: Replace a checkout that holds edits or commits of the user.

    Raises:
        UsageError: The checkout holds work that would be lost, or bad input.
        PatchError: A patch does not apply at its pin.
    """
    with locked(project.build / ".lock"):
        existing = read_state(project)
        _sweep(project)
        if existing and not discard:
            refuse_local_work(project, existing)
        if existing and source in (None, existing.source):
            current = _unchanged(project, existing, upstream, series)
            if current:
                return current
        wanted = source or (existing.source if existing else None)
        found = obtain(upstream, wanted, say=say)
        return _build(project, upstream, series, found, say)


def read_state(project: Project) -> CheckoutState | None:
    """What apply recorded, or None when nothing is applied.

    Raises:
        UsageError: ``build/vllm`` is something that apply did not make.
    """
    link = project.checkout
    if not link.is_symlink():
        if link.exists():
            raise UsageError(
                "is not a checkout made by `make apply`",
                where=str(link.relative_to(project.root)),
                fix="move it away",
            )
        return None
    file = link.resolve() / ".git" / _STATE
    return load(file, CheckoutState) if file.exists() else None


def require_state(project: Project) -> CheckoutState:
    """What apply recorded.

    Raises:
        UsageError: Nothing is applied.
    """
    state = read_state(project)
    if state is None:
        raise UsageError("nothing is applied", where="build/vllm", fix="make apply")
    return state


def local_edits(project: Project) -> list[str]:
    """Changed and untracked files in the checkout, as ``git status`` writes them."""
    git = Git(project.checkout.resolve())
    return git.text("status", "--porcelain", "--untracked-files=all").splitlines()


def refuse_local_work(project: Project, state: CheckoutState) -> None:
    """Refuse when the checkout holds edits or commits that patches/ lacks.

    Raises:
        UsageError: Lists them.
    """
    edits = local_edits(project)
    if edits:
        raise UsageError(
            f"has local edits: {', '.join(edit[3:] for edit in edits)}",
            where="build/vllm",
            fix="commit them and run `make refresh`, or `make apply ARGS=--discard`",
        )
    head = Git(project.checkout.resolve()).text("rev-parse", "HEAD")
    if head != state.head:
        raise UsageError(
            f"is at {head[:12]}, not at {state.head[:12]} where apply left it",
            where="build/vllm",
            fix="`make refresh` keeps them, `make apply ARGS=--discard` drops them",
        )


def _unchanged(
    project: Project, state: CheckoutState, upstream: Upstream, series: Series
) -> Checkout | None:
    git = Git(project.checkout.resolve())
    if state.tag != upstream.tag or git.text("rev-parse", "HEAD") != state.head:
        return None
    if local_edits(project):
        return None
    check_identity(git, state.base, upstream, where="build/vllm")
    applied = stack(git, state.base, series.patches, project.patches)
    if _head(applied, state.base) != state.head:
        return None
    return Checkout(project.checkout, state, changed=False)


def _build(
    project: Project,
    upstream: Upstream,
    series: Series,
    source: SourceRepository,
    say: Say,
) -> Checkout:
    trees = _trees(project)
    trees.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{upstream.tag}-", dir=trees))
    fresh.chmod(0o755)
    try:
        say(
            f"checking out {upstream.tag} "
            f"({source.commit[:12]}, source {source.source})"
        )
        state = _populate(fresh, project, upstream, series, source)
        _switch(project.checkout, fresh)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _sweep(project)
    return Checkout(project.checkout, state, changed=True)


def _sweep(project: Project) -> None:
    """Remove every tree but the current one: old states, and what a kill left."""
    trees = _trees(project)
    for leftover in trees.iterdir() if trees.exists() else ():
        if leftover.resolve() != project.checkout.resolve():
            # A git process that outlived its parent may still write there; what
            # stays goes next time.
            shutil.rmtree(leftover, ignore_errors=True)


def _trees(project: Project) -> Path:
    return project.build / ".trees"


def _populate(
    fresh: Path,
    project: Project,
    upstream: Upstream,
    series: Series,
    source: SourceRepository,
) -> CheckoutState:
    git = Git(fresh, {"safe.directory": str(source.path)})
    tag = f"refs/tags/{upstream.tag}"
    git.run("init", "-q", "--template=")
    git.run(
        "fetch", "-q", "--no-tags", "--update-shallow",
        str(source.path), f"{tag}:{tag}",
    )  # fmt: skip
    git = Git(fresh)
    base = source.commit
    check_identity(git, base, upstream, where=source.source)
    applied = stack(git, base, series.patches, project.patches)
    branch = f"series/{upstream.tag}"
    git.run("update-ref", f"refs/heads/{branch}", _head(applied, base))
    git.run("checkout", "-q", branch)
    state = CheckoutState(
        tag=upstream.tag,
        source=source.source,
        base=base,
        head=_head(applied, base),
        commits={a.entry.number: a.commit for a in applied},
    )
    write_atomic(fresh / ".git" / _STATE, state.model_dump_json(indent=2) + "\n")
    return state


def _switch(link: Path, fresh: Path) -> None:
    """Point ``link`` to ``fresh`` in one step."""
    aside = link.with_name(f".{link.name}-{fresh.name}")
    aside.symlink_to(Path(fresh.parent.name) / fresh.name)
    try:
        aside.replace(link)
    finally:
        aside.unlink(missing_ok=True)


def _head(applied: tuple[Applied, ...], base: str) -> str:
    return applied[-1].commit if applied else base
