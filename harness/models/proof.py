# SPDX-License-Identifier: Apache-2.0
"""What serving processes said of the files they run."""

from __future__ import annotations

from harness.models.base import Model
from harness.models.pin import BlobId


class ModuleProof(Model):
    """One target file as one process sees it."""

    path: str
    """Path in vLLM's tree."""
    imported: bool
    file: str | None
    """The imported module's file, or the one that an import would find."""
    blob: BlobId | None
    """git's id of that file's bytes; None if it can't be read."""


class ProcessProof(Model):
    """One process's answer."""

    pid: int
    ppid: int
    role: str
    """vLLM's name for it: MainProcess (the API server), EngineCore, VllmWorker-0 ..."""
    title: str
    vllm_file: str | None
    modules: tuple[ModuleProof, ...]


class Proof(Model):
    """That the processes of one server run the files of one tree."""

    tree: str
    asked_at: str
    """UTC, ISO 8601."""
    processes: tuple[ProcessProof, ...]

    def executed(self, path: str) -> tuple[str, ...]:
        """Roles of the processes that imported the target ``path``."""
        return tuple(
            process.role
            for process in self.processes
            if any(m.imported for m in process.modules if m.path == path)
        )
