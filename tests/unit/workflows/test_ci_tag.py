# SPDX-License-Identifier: Apache-2.0
"""What CI does for one release, with its commands made up at the process boundary."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from harness import cli
from harness.errors import ExitCode
from harness.models.compat import Cell, Compatibility, PatchInfo, Release, Verdict
from harness.paths import Project
from harness.workflows import ci_tag

PIN, OTHER = "v0.26.0", "v0.27.0"
NUMBERS = ("0001", "0002")


def judged(tag: str, *verdicts: Verdict) -> Compatibility:
    cells = {
        number: Cell(verdict=verdict, signal="merge")
        for number, verdict in zip(NUMBERS, verdicts, strict=True)
    }
    release = Release(tag=tag, commit=None, source="git", verdicts=cells)
    patches = {n: PatchInfo(title=n, targets=("a.py",)) for n in NUMBERS}
    return Compatibility(base=PIN, patches=patches, releases=(release,))


@dataclass
class Commands:
    """Stand-ins for this program's commands: what each writes, and its exit code."""

    root: Path
    output: Path
    compatibility: Compatibility | None
    codes: dict[str, int] = field(default_factory=dict)
    measure: Callable[[Path], None] = lambda results: None
    ran: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """The job's note on disk when each command began."""

    @property
    def names(self) -> list[str]:
        return [words[0] for words in self.ran]

    def run(
        self, command: Sequence[str], *, stdout: BinaryIO, check: bool
    ) -> subprocess.CompletedProcess[bytes]:
        assert not check
        words = tuple(command[command.index(str(self.root)) + 1 :])
        record = self.output / "ci.json"
        if record.exists():
            self.notes.append(json.loads(record.read_text())["note"])
        self.ran.append(words)
        stdout.write(f"{words[0]} was here\n".encode())
        if words[0] == "compat" and self.compatibility is not None:
            text = self.compatibility.model_dump_json()
            (self.output / "compat.json").write_text(text)
        if words[0] == "verify":
            self.measure(self.root / "results")
        return subprocess.CompletedProcess(command, self.codes.get(words[0], 0))


@pytest.fixture
def root(tmp_path: Path, project: Project) -> Path:
    """A project's data files: the pin and the series."""
    home = tmp_path / "project"
    (home / "configs").mkdir(parents=True)
    (home / "patches").mkdir()
    shutil.copy(project.pin, home / "configs")
    shutil.copy(project.patches / "series.yaml", home / "patches")
    return home


@pytest.fixture
def job(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, Commands]]:
    """Run ``ci-tag`` with made-up commands."""

    def run(
        tag: str, compatibility: Compatibility | None, *words: str, **made: Any
    ) -> tuple[int, Commands]:
        commands = Commands(root, tmp_path / "out", compatibility, **made)
        monkeypatch.setattr(ci_tag.subprocess, "run", commands.run)
        line = ["--root", str(root), "ci-tag", tag, "--output", str(commands.output)]
        return cli.main([*line, *words]), commands

    return run


def record(commands: Commands) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((commands.output / "ci.json").read_text())
    return found


def write_summary(results: Path, tag: str = PIN) -> None:
    place = results / tag / "cpu"
    place.mkdir(parents=True, exist_ok=True)
    (place / "summary.json").write_text("{}")


Job = Callable[..., tuple[int, Commands]]


def test_where_nothing_applies_compat_is_all(job: Job) -> None:
    merged = judged(OTHER, Verdict.MERGED, Verdict.CONFLICT)
    code, commands = job(OTHER, merged)
    assert (code, commands.names) == (ExitCode.PASS, ["compat"])
    assert record(commands)["note"] == "nothing applies, so there is nothing to measure"
    assert record(commands)["verdicts"] == {"0001": "MERGED", "0002": "CONFLICT"}


def test_at_the_pin_what_applies_is_measured(job: Job) -> None:
    exact = judged(PIN, Verdict.EXACT, Verdict.EXACT)
    code, commands = job(PIN, exact, "--source", "sdist", measure=write_summary)
    assert (code, commands.names) == (ExitCode.PASS, ["compat", "verify"])
    assert commands.ran[1] == (
        "verify", "--profile", "cpu", "--source", "sdist", "--quick",
    )  # fmt: skip
    assert record(commands)["carried"] == ["0001", "0002"]
    assert (commands.output / "verify" / "cpu" / "summary.json").exists()
    assert (commands.output / "verify.log").read_text() == "verify was here\n"


def test_at_another_release_the_series_is_carried_there_first(job: Job) -> None:
    some = judged(OTHER, Verdict.MERGED, Verdict.APPLIES)
    code, commands = job(OTHER, some, "--verify-arguments", "--pairs 5")
    assert (code, commands.names) == (ExitCode.PASS, ["compat", "rebase", "verify"])
    assert commands.ran[2] == (
        "verify", "--tag", OTHER, "--profile", "cpu", "--pairs", "5",
    )  # fmt: skip
    assert record(commands)["carried"] == ["0002"]


def test_a_set_that_is_there_is_not_made_anew(job: Job, root: Path) -> None:
    home = root / "patches" / OTHER
    home.mkdir()
    shutil.copy(root / "configs" / "upstream.yaml", home)
    some = judged(OTHER, Verdict.APPLIES, Verdict.APPLIES)
    _, commands = job(OTHER, some)
    assert commands.names == ["compat", "verify"]


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_the_exit_code_of_verify_is_passed_on_after_its_results(
    job: Job, code: int
) -> None:
    exact = judged(PIN, Verdict.EXACT, Verdict.EXACT)
    ended, commands = job(PIN, exact, codes={"verify": code}, measure=write_summary)
    assert ended == code
    assert record(commands)["exit_code"] == code
    assert (commands.output / "verify" / "cpu" / "summary.json").exists()


def test_what_is_known_is_on_disk_before_each_step(job: Job) -> None:
    some = judged(OTHER, Verdict.APPLIES, Verdict.APPLIES)
    _, commands = job(OTHER, some)
    assert commands.notes == ["unfinished after compat", "unfinished after rebase"]


def test_a_release_that_could_not_be_judged_is_no_pass(job: Job) -> None:
    code, commands = job(OTHER, None, codes={"compat": 3})
    assert (code, commands.names) == (ExitCode.INFRASTRUCTURE, ["compat"])
    assert record(commands)["note"] == "the release could not be judged"


def test_a_patch_that_fails_at_its_pin_is_not_measured(job: Job) -> None:
    broken = judged(PIN, Verdict.EXACT, Verdict.CONFLICT)
    code, commands = job(PIN, broken, codes={"compat": 1})
    assert (code, commands.names) == (ExitCode.REGRESSED, ["compat"])


def test_a_series_that_can_t_be_carried_is_not_measured(job: Job) -> None:
    some = judged(OTHER, Verdict.APPLIES, Verdict.APPLIES)
    code, commands = job(OTHER, some, codes={"rebase": 1})
    assert (code, commands.names) == (ExitCode.REGRESSED, ["compat", "rebase"])


def test_a_killed_command_measured_nothing(job: Job) -> None:
    exact = judged(PIN, Verdict.EXACT, Verdict.EXACT)
    code, commands = job(PIN, exact, codes={"verify": -9})
    assert code == ExitCode.INFRASTRUCTURE
    assert not (commands.output / "verify").exists()


def test_results_of_an_earlier_run_are_not_this_one_s(job: Job, root: Path) -> None:
    write_summary(root / "results")
    exact = judged(PIN, Verdict.EXACT, Verdict.EXACT)
    _, commands = job(PIN, exact, codes={"verify": 3})
    assert not (commands.output / "verify").exists()


def test_a_judgement_of_an_earlier_job_does_not_count(job: Job, tmp_path: Path) -> None:
    old = judged(PIN, Verdict.EXACT, Verdict.EXACT).model_dump_json()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "compat.json").write_text(old)
    code, commands = job(PIN, None, codes={"compat": 3})
    assert (code, commands.names) == (ExitCode.INFRASTRUCTURE, ["compat"])


@pytest.mark.parametrize("tag", ["main", "v1; rm -rf x", "0.27.0"])
def test_what_is_no_release_tag_runs_nothing(job: Job, tag: str) -> None:
    code, commands = job(tag, None)
    assert (code, commands.names) == (ExitCode.USAGE, [])
