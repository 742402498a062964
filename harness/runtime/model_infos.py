# SPDX-License-Identifier: Apache-2.0
"""What vLLM found out about its model classes, kept from one run to the next.

vLLM inspects a class in a process of its own, ten seconds each, and keeps the result
with a hash of the class's files; it does not use one whose files differ. So these files
may be handed on, where nothing else in vLLM's caches may: compiled code must be that of
the tree that is measured.
"""

from __future__ import annotations

from pathlib import Path

from harness import files, paths
from harness.git import Git
from harness.runtime.environment import Environment

_FOLDER = "modelinfos"


def model_infos(overlay: Path) -> Path:
    """The folder of an overlay in which vLLM looks for them."""
    return overlay / "caches" / "vllm" / _FOLDER


def take_over(overlay: Path, tree: Path, environment: Environment) -> None:
    """Give an overlay the results of the same tree, else those of its neighbours."""
    known = _results(_kept(tree, environment))
    for other in sorted(overlay.parent.iterdir()):
        known += _results(model_infos(other))
    _copy(known, model_infos(overlay), replace=False)


def keep(overlay: Path, tree: Path, environment: Environment) -> None:
    """Keep an overlay's results in the user's cache, by the content of the tree."""
    kept = _kept(tree, environment)
    if kept is not None:
        _copy(_results(model_infos(overlay)), kept, replace=True)


def _kept(tree: Path, environment: Environment) -> Path | None:
    content = Git(tree).run("rev-parse", "HEAD:vllm", check=False)
    if content.status != 0:
        return None
    return paths.cache_dir() / _FOLDER / environment.identity / content.text


def _results(folder: Path | None) -> list[Path]:
    return sorted(folder.glob("*.json")) if folder else []


def _copy(results: list[Path], into: Path, *, replace: bool) -> None:
    for result in results:
        own = into / result.name
        if replace or not own.exists():
            files.write_atomic(own, result.read_bytes())
