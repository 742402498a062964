# SPDX-License-Identifier: Apache-2.0
"""What CI does for one release: judge, and measure where anything applies.

The steps are this program's own commands, run one after the other, so that what
happens on a CI machine is what the same words do on any other.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compat.merging import RESULT, RUN
from harness.errors import ExitCode
from harness.files import write_atomic
from harness.models.base import load
from harness.models.ci import CiRun, CiStep
from harness.models.compat import CARRIED, Compatibility
from harness.models.pin import Upstream
from harness.paths import Project
from harness.upstream.index import Say


@dataclass(frozen=True)
class Job:
    """One release's job.

    Attributes:
        output: Where its results go.
        source: SOURCE for the commands; None: their default.
        arguments: More options for ``verify``.
    """

    project: Project
    upstream: Upstream
    tag: str
    output: Path
    source: str | None
    profile: str
    arguments: Sequence[str]
    say: Say

    def run(self) -> CiRun:
        """Run the job; its result is on disk whatever happens."""
        self.output.mkdir(parents=True, exist_ok=True)
        for name in (RESULT, RUN):
            (self.output / name).unlink(missing_ok=True)
        run = CiRun(tag=self.tag, exit_code=ExitCode.INFRASTRUCTURE, note="unfinished")
        run = self._step(run, "compat", self._compat())
        if not (self.output / RESULT).exists():
            return self._end(run, "the release could not be judged")
        result = load(self.output / RESULT, Compatibility)
        cells = result.releases[0].verdicts
        verdicts = {number: cell.verdict for number, cell in cells.items()}
        carried = tuple(n for n, verdict in verdicts.items() if verdict in CARRIED)
        run = run.model_copy(update={"verdicts": verdicts, "carried": carried})
        if run.exit_code != ExitCode.PASS:
            return self._end(run, "nothing was measured")
        if not carried:
            return self._end(run, "nothing applies, so there is nothing to measure")
        release = []
        if self.tag != self.upstream.tag:
            release = ["--tag", self.tag]
            # A set that is there may hold conflicts that a person settled.
            if not Project(self.project.root, self.tag).pin.exists():
                run = self._step(run, "rebase", ["rebase", self.tag, *self._source()])
                if run.exit_code != ExitCode.PASS:
                    return self._end(run, "the series could not be carried there")
        verify = ["verify", *release, "--profile", self.profile, *self._source()]
        before = self._measured()
        run = self._step(run, "verify", [*verify, *self.arguments])
        if self._measured() != before:
            self._collect()
        return self._end(run, "")

    def _compat(self) -> list[str]:
        command = ["compat", "--tag", self.tag, "--output", str(self.output)]
        return [*command, *self._source()]

    def _source(self) -> list[str]:
        return ["--source", self.source] if self.source else []

    def _step(self, run: CiRun, name: str, command: Sequence[str]) -> CiRun:
        """Run one command; its report goes to a log beside the results, and on."""
        self.say(f"ci-tag {self.tag}: {name}")
        started = time.monotonic()
        log = self.output / f"{name}.log"
        with log.open("wb") as stream:
            code = subprocess.run(
                [
                    sys.executable, "-m", "harness",
                    "--root", str(self.project.root), *command,
                ],
                stdout=stream,
                check=False,
            ).returncode  # fmt: skip
        self.say(log.read_text(encoding="utf-8", errors="replace").rstrip())
        step = CiStep(
            name=name,
            command=("harness", *command),
            exit_code=code,
            seconds=round(time.monotonic() - started, 1),
        )
        run = run.model_copy(update={"steps": (*run.steps, step), "exit_code": code})
        self._write(run.model_copy(update={"note": f"unfinished after {name}"}))
        return run

    def _results(self) -> Path:
        return self.project.results / self.tag / self.profile

    def _measured(self) -> int | None:
        """When verify last wrote a summary; the checkout may hold an older one."""
        summary = self._results() / "summary.json"
        return summary.stat().st_mtime_ns if summary.exists() else None

    def _collect(self) -> None:
        """Copy what verify measured to the job's own results."""
        place = self.output / "verify" / self.profile
        shutil.copytree(self._results(), place, dirs_exist_ok=True)

    def _end(self, run: CiRun, note: str) -> CiRun:
        code = run.exit_code
        known = code in list(ExitCode)
        run = run.model_copy(
            update={
                "note": note,
                # A command that was killed measured nothing.
                "exit_code": code if known else int(ExitCode.INFRASTRUCTURE),
            }
        )
        self._write(run)
        return run

    def _write(self, run: CiRun) -> None:
        write_atomic(self.output / RUN, run.model_dump_json(indent=2) + "\n")
