# SPDX-License-Identifier: Apache-2.0
"""Watches the buffer that DeepSeek V4's target keeps for a draft, in serving workers.

A general plugin of vLLM for the CPU worker. It does nothing unless HARNESS_BUFFER_DIR
names a folder. There each process that runs a target writes ``buffer-<pid>.json``,
whole, about once a second while it changes::

    {"pid", "role", "model": "module.Class", "classes": [...], "stand_ins": [...],
     "buffer": null or {"shape", "dtype", "bytes"},
     "forwards", "rows", "rows_of_residual"}

``classes`` are those of target and draft that belong to vLLM's models, see
:mod:`harness.inside.own_classes`. ``rows`` are the tokens of all forwards of the
target, its warm-up included, and ``rows_of_residual`` those of them whose row of the
buffer, right after the forward, was bit for bit what the forward had handed to the
head: the residual streams. How many forwards there are depends on
when requests arrive; that every row is right does not.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

from harness.inside import own_classes
from harness.inside.on_import import when_imported
from harness.inside.standins import ACTIVE
from harness.inside.steadily import replace_text, write_steadily

FOLDER = "HARNESS_BUFFER_DIR"
"""Environment variable: where the files go."""

RUNNER = "vllm.v1.worker.cpu_model_runner"
MODELS = "vllm.models."


def main() -> None:
    """The plugin's entry: watch every target model that this process loads."""
    folder = os.environ.get(FOLDER)
    if folder:
        when_imported(RUNNER, lambda: _watch_runner(Path(folder)))


class Watch:
    """What is known of one target model and its buffer.

    Args:
        model: Has ``get_mtp_target_hidden_states`` and, in its ``model``, the head's
            operator ``hc_head_op``, which takes the residual [tokens, streams, hidden].
        classes: What is known of the classes of target and draft.
    """

    def __init__(self, model: Any, classes: Any = ()) -> None:
        self._model = model
        self._classes = list(classes)
        self._residual: Any = None
        self._lock = threading.Lock()
        self.forwards = self.rows = self.equal = 0
        self._written = -1
        model.model.hc_head_op.register_forward_pre_hook(self._before_head)
        model.register_forward_hook(self._after_forward)

    def _before_head(self, head: Any, arguments: tuple[Any, ...]) -> None:
        self._residual = arguments[0]

    def _after_forward(self, model: Any, arguments: Any, output: Any) -> None:
        residual, self._residual = self._residual, None
        if residual is None:
            # Not the last rank of a pipeline.
            return
        flat = residual.flatten(1)
        buffer = model.get_mtp_target_hidden_states()
        equal = 0 if buffer is None else equal_rows(buffer, flat)
        with self._lock:
            self.forwards += 1
            self.rows += len(flat)
            self.equal += equal

    def describe(self) -> dict[str, Any]:
        buffer = self._model.get_mtp_target_hidden_states()
        kind = type(self._model)
        with self._lock:
            return {
                "pid": os.getpid(),
                "role": multiprocessing.current_process().name,
                "model": f"{kind.__module__}.{kind.__qualname__}",
                "classes": self._classes,
                "buffer": None if buffer is None else describe(buffer),
                "forwards": self.forwards,
                "rows": self.rows,
                "rows_of_residual": self.equal,
                "stand_ins": [stand_in.describe() for stand_in in ACTIVE.values()],
            }

    def write(self, path: Path) -> None:
        """Write ``path``, whole, if there is something new."""
        noted = self.forwards
        if noted != self._written:
            replace_text(path, json.dumps(self.describe()))
            self._written = noted


def equal_rows(buffer: Any, rows: Any) -> int:
    """How many of the first rows of ``buffer`` are ``rows``, bit for bit.

    Of other width, type or number no row is.
    """
    first = buffer[: len(rows)]
    if first.shape != rows.shape or first.dtype != rows.dtype:
        return 0
    return int((first == rows).all(dim=1).sum())


def describe(buffer: Any) -> dict[str, Any]:
    return {
        "shape": list(buffer.shape),
        "dtype": str(buffer.dtype).removeprefix("torch."),
        "bytes": buffer.numel() * buffer.element_size(),
    }


def _classes(runner: Any) -> Any:
    import torch
    import vllm

    draft = getattr(getattr(runner, "drafter", None), "model", None)
    models = [model for model in (runner.model, draft) if model is not None]
    modules = [module for model in models for module in model.modules()]
    homes = (Path(vllm.__file__).parent, Path(torch.__file__).parent)
    return own_classes.describe(modules, MODELS, homes)


def _watch_runner(folder: Path) -> None:
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    original = CPUModelRunner.load_model

    def load_model(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        watch = Watch(self.model, _classes(self))
        path = folder / f"buffer-{os.getpid()}.json"
        write_steadily(path, lambda: watch.write(path), "harness-buffer")

    CPUModelRunner.load_model = load_model
