# SPDX-License-Identifier: Apache-2.0
"""Wrong forms of patch 0001, served through the amd class with MTP: who sees them.

``make faults`` runs them, ``make test`` does not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from harness.errors import ExitCode
from harness.models.base import Model, load
from harness.models.signal import Answer
from harness.models.summary import Summary
from harness.paths import Project, default_root
from harness.report.markdown import who_spoke
from tests.support.faulty import put_in, restore_patches, run_harness

pytestmark = [pytest.mark.vllm, pytest.mark.faults, pytest.mark.timeout(3600)]

FOLDER = default_root() / "tests" / "fixtures" / "served"
FILE = "vllm/models/deepseek_v4/amd/model.py"
PATCH, PROFILE, SERVER = "0001", "cpu-v4", "amd-mtp"


class Served(Model):
    """An edit of the patched file, and what has to be seen of it."""

    find: str
    replace: str
    caught: tuple[str, ...]
    """Beginnings of the names of signals that must say worse."""
    dies: bool
    """The server dies, so that nothing else of it is measured."""


def variants() -> dict[str, Served]:
    return {path.stem: load(path, Served) for path in sorted(FOLDER.glob("*.yaml"))}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy whose profile has the one server; the probes run the lines."""
    here = Project(default_root())
    copy = Project(tmp_path_factory.mktemp("served") / "project")
    shutil.copytree(here.configs, copy.configs)
    shutil.copytree(here.patches, copy.patches)
    path = copy.configs / "profiles" / f"{PROFILE}.yaml"
    yaml = YAML()
    content = yaml.load(path.read_text())
    (server,) = (s for s in content["servers"] if s["name"] == SERVER)
    content["servers"] = [{**server, "traced": False}]
    yaml.dump(content, path)
    return copy


def _put_in(project: Project, variant: Served) -> None:
    """The series with the edit in its patch, applied and written."""
    restore_patches(project)
    put_in(project, PATCH, FILE, variant.find, variant.replace)


@pytest.mark.parametrize("name", variants())
def test_a_wrong_buffer_is_seen(project: Project, name: str) -> None:
    variant = variants()[name]
    _put_in(project, variant)
    words = ["verify", "--source", "sdist", "--profile", PROFILE, "--quick"]
    code = run_harness(project, *words)
    path = Path(project.results) / "v0.26.0" / PROFILE / "summary.json"
    found = load(path, Summary).patches[PATCH]
    print(f"\n{name}: exit code {code}", *who_spoke(found.judgement), sep="\n  ")
    assert code == ExitCode.REGRESSED
    for wanted in variant.caught:
        assert any(s.startswith(wanted) for s in found.judgement.caught_by), wanted
    served = [s for s in found.signals if SERVER in s.name]
    died = any(s.answer is Answer.INVALID for s in served)
    assert died == variant.dies
