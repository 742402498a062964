# SPDX-License-Identifier: Apache-2.0
"""Counts the collectives of the draft model's forward inside serving workers.

A general plugin of vLLM. It does nothing unless HARNESS_COLLECTIVES_DIR names a folder.
There each process that runs a draft model writes ``collectives-<pid>.json``, whole,
about once a second while it changes::

    {"pid", "role", "draft": class, "tensor_rank", "data_rank", "eager": bool,
     "stand_ins": [{"name", "replaces", "reason"}],
     "forwards": [{"tokens", "sizes", "count", "calls": [...]}]}

where ``count`` forwards of ``tokens`` tokens made exactly these calls, in this order
(see harness/inside/observe/collectives.py), and ``sizes`` are the rows of every rank,
if a call named them. How many forwards there are, and beside which batches of the other
ranks, depends on when requests arrive; an idle data-parallel rank runs empty ones. The
calls of a forward of so many tokens beside so many do not. Forwards of the warm-up are
counted too. Only eager execution can be seen: a compiled forward does not pass the
coordinator.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from harness.inside.on_import import when_imported
from harness.inside.standins import ACTIVE
from harness.inside.steadily import replace_text, write_steadily

FOLDER = "HARNESS_COLLECTIVES_DIR"
"""Environment variable: where the files go."""

PROPOSER = "vllm.v1.spec_decode.llm_base_proposer"


def main() -> None:
    """The plugin's entry: watch every draft model that this process loads."""
    folder = os.environ.get(FOLDER)
    if folder:
        when_imported(PROPOSER, lambda: _watch_proposer(Path(folder)))


class Ledger:
    """The forwards of one draft model in this process."""

    def __init__(self, about: dict[str, Any]) -> None:
        self._about = about
        self._forwards: Counter[tuple[int, str, str]] = Counter()
        self._lock = threading.Lock()
        self._written = -1

    def add(self, tokens: int, calls: list[dict[str, Any]]) -> None:
        """Note one forward of ``tokens`` tokens."""
        named = [call["sizes"] for call in calls if call["sizes"] is not None]
        sizes = json.dumps(named[0] if named else None)
        own = [{k: v for k, v in call.items() if k != "sizes"} for call in calls]
        with self._lock:
            self._forwards[tokens, sizes, json.dumps(own, sort_keys=True)] += 1

    def write(self, path: Path) -> None:
        """Write ``path``, whole, if there is something new."""
        with self._lock:
            noted = self._forwards.total()
            forwards = sorted(self._forwards.items())
        if noted == self._written:
            return
        data = {
            **self._about,
            "stand_ins": [stand_in.describe() for stand_in in ACTIVE.values()],
            "forwards": [
                {
                    "tokens": tokens,
                    "sizes": json.loads(sizes),
                    "count": count,
                    "calls": json.loads(calls),
                }
                for (tokens, sizes, calls), count in forwards
            ],
        }
        replace_text(path, json.dumps(data))
        self._written = noted


def _watch_proposer(folder: Path) -> None:
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

    original = SpecDecodeBaseProposer.load_model

    def load_model(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        ledger = Ledger(_about(self))
        _watch_model(self.model, ledger)
        path = folder / f"collectives-{os.getpid()}.json"
        write_steadily(path, lambda: ledger.write(path), "harness-collectives")

    SpecDecodeBaseProposer.load_model = load_model


def _about(proposer: Any) -> dict[str, Any]:
    from vllm.distributed import get_dp_group, get_tp_group

    return {
        "pid": os.getpid(),
        "role": multiprocessing.current_process().name,
        "draft": type(proposer.model).__name__,
        "tensor_rank": get_tp_group().rank_in_group,
        "data_rank": get_dp_group().rank_in_group,
        "eager": bool(proposer.vllm_config.model_config.enforce_eager),
    }


def _watch_model(model: Any, ledger: Ledger) -> None:
    from harness.inside.observe.collectives import Collectives

    original = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with Collectives().watch() as seen:
            result = original(*args, **kwargs)
        positions = kwargs["positions"] if "positions" in kwargs else args[1]
        ledger.add(positions.shape[-1], seen.calls)
        return result

    # On the instance: other models of the same class are none of ours, and a model
    # under vLLM's compile decorator does not call its hooks.
    model.forward = forward
