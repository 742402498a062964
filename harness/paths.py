# SPDX-License-Identifier: Apache-2.0
"""Where things are: the project's folders and the user's cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "HARNESS_CACHE"
"""Environment variable that moves the cache folder (tests, CI, small home disks)."""

DATA_VARIABLE = "HARNESS_DATA"
"""Environment variable naming the folder with large data (holds ``gsm8k/``)."""


@dataclass(frozen=True)
class Project:
    """The folders of one checkout of this repository.

    Attributes:
        release: Empty for the series at its pin, else the tag of a set that
            ``make rebase`` made of it for another release.
    """

    root: Path
    release: str = ""

    @property
    def patches(self) -> Path:
        return self.root / "patches" / self.release

    @property
    def pin(self) -> Path:
        """The file that says which upstream tree the patches are for."""
        if self.release:
            return self.patches / "upstream.yaml"
        return self.configs / "upstream.yaml"

    @property
    def configs(self) -> Path:
        return self.root / "configs"

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def build(self) -> Path:
        return self.root / "build" / self.release

    @property
    def checkout(self) -> Path:
        """The vLLM checkout with the series on it (a link, switched atomically)."""
        return self.build / "vllm"

    @property
    def requirements(self) -> Path:
        """The locks; those of another release are written by ``make rebase``."""
        if self.release:
            return self.patches / "requirements"
        return self.configs / "requirements"

    @property
    def data(self) -> Path:
        """The folder with large data; may not exist."""
        named = os.environ.get(DATA_VARIABLE)
        return Path(named).expanduser() if named else self.root.parent / "shared"


def default_root() -> Path:
    """The checkout that this package runs from."""
    return Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """The user's cache folder for downloads, environments and imported trees."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser().resolve()
    return Path(platformdirs.user_cache_path("vllm-patch-harness"))
