# SPDX-License-Identifier: Apache-2.0
"""The measured process: import once, then run each scenario in forked ranks.

``python -m harness.inside.probes.worker JOB`` reads a JSON job::

    {"modules": [...], "files": [...], "out": "folder",
     "scenarios": [{"name", "module", "ranks", "seconds", "parameters"}]}

Each rank has a folder of its own, ``out/<index>/<rank>``, with its log. Lines of JSON
are added to ``out/events.jsonl``: ``{"event": "ready", "seconds"}`` after the imports,
then one per scenario, ``{"event": "scenario", "scenario", "seconds", "ranks": [...]}``,
where each rank has its ``outcome``, ``facts``, ``standins`` and executed ``lines``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from harness.inside.coverage import LineRecorder
from harness.inside.ports import free_port
from harness.inside.probes import children
from harness.inside.probes.context import Context


def main(arguments: list[str]) -> int:
    job = json.loads(Path(arguments[0]).read_text())
    out = Path(job["out"])
    started = time.monotonic()
    recorder = LineRecorder(job["files"])
    with recorder.importing():
        for name in job["modules"]:
            importlib.import_module(name).warm()
    _say(out, "ready", started)
    for index, scenario in enumerate(job["scenarios"]):
        started = time.monotonic()
        ranks = _run(scenario, out / str(index), recorder)
        _say(out, "scenario", started, scenario=scenario["name"], ranks=ranks)
    return 0


def _run(
    scenario: dict[str, Any], folder: Path, recorder: LineRecorder
) -> list[dict[str, Any]]:
    shared = folder / "shared"
    shared.mkdir(parents=True)
    port = free_port()
    started = []
    for rank in range(scenario["ranks"]):
        context = Context(
            parameters=scenario["parameters"],
            rank=rank,
            ranks=scenario["ranks"],
            folder=shared,
            port=port,
        )
        started.append(_start(scenario, context, folder / str(rank), recorder))
    nothing = {"facts": {}, "standins": [], "lines": recorder.report()}
    return [
        {**(value or nothing), "outcome": outcome}
        for outcome, value in children.wait(started)
    ]


def _start(
    scenario: dict[str, Any], context: Context, folder: Path, recorder: LineRecorder
) -> children.Child:
    probe = importlib.import_module(scenario["module"])

    def work() -> None:
        if getattr(probe, "TRACED", True):
            recorder.start()
        try:
            probe.run(context)
        finally:
            recorder.stop()

    def collect() -> dict[str, Any]:
        return {
            "facts": context.facts,
            "standins": list(context.standins.values()),
            "lines": recorder.report(),
        }

    return children.start(work, collect, folder, scenario["seconds"])


def _say(out: Path, event: str, started: float, **more: Any) -> None:
    seconds = round(time.monotonic() - started, 2)
    line = json.dumps({"event": event, "seconds": seconds, **more})
    with (out / "events.jsonl").open("a") as stream:
        stream.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
