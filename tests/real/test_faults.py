# SPDX-License-Identifier: Apache-2.0
"""Faults put into the tree through ``refresh``, one at a time: which signal sees each.

Half an hour: ``make faults`` runs them, ``make test`` does not. What was caught by
which signal, and which ones stayed silent, is printed.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from harness.errors import ExitCode
from harness.models.base import load
from harness.models.signal import Judgement
from harness.models.summary import Summary
from harness.paths import Project, default_root
from harness.report.markdown import who_spoke
from tests.support.faulty import put_in, restore_patches, run_harness

pytestmark = [pytest.mark.vllm, pytest.mark.faults, pytest.mark.timeout(3600)]

MTP = "vllm/model_executor/models/deepseek_mtp.py"
TARGET = "vllm/model_executor/models/deepseek_v2.py"
PATCH = "0005"
CLAIMS = "claims"


@dataclass(frozen=True)
class Fault:
    """A change that the harness has to see.

    ``caught`` and ``silent`` are beginnings of the signals' names. Without ``quick`` a
    whole run is made: one pair of starts can't judge speed. Without ``claims`` the
    probes stay out: the served signals alone are on trial.
    """

    file: str
    old: str
    new: str
    caught: tuple[str, ...]
    silent: tuple[str, ...]
    quick: bool = True
    claims: bool = False


RIGHT = ("accuracy mtp/problems", "accuracy mtp/exact: log-probabilities")
DRAFTS = ("acceptance mtp/answers length", "acceptance mtp/free-text length")

FAULTS = {
    "the draft reads the token at the wrong position": Fault(
        MTP,
        "            inputs_embeds = self.embed_tokens(input_ids)\n",
        "            inputs_embeds = self.embed_tokens(input_ids.roll(1))\n",
        caught=DRAFTS,
        silent=RIGHT,
    ),
    "the final norm of the draft is skipped": Fault(
        MTP,
        "        return self.norm(hidden_states)\n",
        "        return hidden_states\n",
        # A change of scale leaves the most likely token the same nearly always: over
        # so few drafts their acceptance can't tell, but every logit of the draft is
        # another one.
        caught=("probes",),
        silent=RIGHT,
        claims=True,
    ),
    "the routed scale is ignored in the target": Fault(
        TARGET,
        '        self.routed_scaling_factor = getattr(config, "routed_scaling_factor", '
        "1.0)\n\n        self.ep_group",
        "        self.routed_scaling_factor = 1.0\n\n        self.ep_group",
        # So many words are sure that few answers change; their probabilities all do.
        caught=(RIGHT[1],),
        silent=(),
    ),
    "the draft's forward sleeps for 20 ms": Fault(
        MTP,
        "        assert inputs_embeds is not None\n",
        "        assert inputs_embeds is not None\n"
        '        __import__("time").sleep(0.02)\n',
        caught=("serving mtp/short: median TPOT",),
        silent=(*RIGHT, *DRAFTS),
        quick=False,
    ),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    here = Project(default_root())
    copy = Project(tmp_path_factory.mktemp("faults") / "project")
    shutil.copytree(here.configs, copy.configs)
    shutil.copytree(here.patches, copy.patches)
    shutil.copytree(here.results, copy.results)
    _slim(copy.configs / "profiles" / "cpu.yaml")
    return copy


def _slim(path: Path) -> None:
    """As few questions and requests in a whole run as in a quick one, and no gsm8k:
    enough for faults."""
    few, count = re.subn(
        r"full: [\d.]+, quick: ([\d.]+)", r"full: \1, quick: \1", path.read_text()
    )
    assert count > 5
    yaml = YAML(typ="safe")
    profile = yaml.load(few)
    for server in profile["servers"]:
        server["accuracy"] = [c for c in server["accuracy"] if c["name"] != "gsm8k"]
    with path.open("w") as stream:
        yaml.dump(profile, stream)


def _put_in(project: Project, fault: Fault) -> None:
    """The series with the fault in its last patch, applied and written."""
    restore_patches(project)
    for claims in (project.patches / CLAIMS).iterdir():
        if not fault.claims or claims.stem != PATCH:
            claims.unlink()
    put_in(project, PATCH, fault.file, fault.old, fault.new)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_by_the_signal_that_can_see_it(
    project: Project, name: str
) -> None:
    fault = FAULTS[name]
    _put_in(project, fault)
    words = ["--quick"] if fault.quick else []
    code = run_harness(project, "verify", "--source", "sdist", *words)
    summary = load(project.results / "v0.26.0" / "cpu" / "summary.json", Summary)
    judgement = summary.patches[PATCH].judgement
    print(f"\n{name}: exit code {code}", *who_spoke(judgement), sep="\n  ")
    assert code == ExitCode.REGRESSED
    assert not _missing(fault.caught, judgement.caught_by), judgement
    assert not _missing(fault.silent, judgement.silent), judgement
    assert _innocent(summary) == []


def _missing(wanted: tuple[str, ...], found: tuple[str, ...]) -> list[str]:
    return [w for w in wanted if not any(name.startswith(w) for name in found)]


def _innocent(summary: Summary) -> list[Judgement]:
    """Verdicts against patches that are not at fault (QUICK judges 0003 along)."""
    return [
        patch.judgement
        for number, patch in summary.patches.items()
        if number != PATCH and number not in summary.patches[PATCH].together_with
        if patch.judgement.caught_by
    ]
