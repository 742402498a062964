# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.models.base import load, validate
from harness.models.profile import Profile, SeededModel
from harness.models.series import Series

ROOT = Path(__file__).resolve().parents[3]
Data = dict[str, Any]


@pytest.fixture
def cpu() -> Profile:
    return load(ROOT / "configs" / "profiles" / "cpu.yaml", Profile)


@pytest.fixture
def data(cpu: Profile) -> Data:
    return cpu.model_dump(mode="json")


def test_the_cpu_profile_says_what_the_cpu_needs(cpu: Profile) -> None:
    assert cpu.model == SeededModel(kind="seeded", seed=20260)
    (server,) = cpu.servers
    arguments = server.server_arguments()
    assert "--no-enable-prefix-caching" in arguments
    compilation = next(a for a in arguments if a.startswith("--compilation-config="))
    # Without this the rotary embedding of the query is wrong on CPUs.
    custom = json.loads(compilation.split("=", 1)[1])["custom_ops"]
    assert "-rotary_embedding" in custom
    spec = json.loads(arguments[arguments.index("--speculative-config") + 1])
    assert spec == {"method": "mtp", "num_speculative_tokens": 1}
    assert server.environment["VLLM_MLA_DISABLE"] == "1"


def test_every_profile_is_named_as_its_file_and_covers_the_series() -> None:
    series = load(ROOT / "patches" / "series.yaml", Series)
    numbers = {patch.number for patch in series.patches}
    for path in sorted((ROOT / "configs" / "profiles").glob("*.yaml")):
        profile = load(path, Profile)
        assert profile.name == path.stem
        assert set(profile.coverage) == numbers


def test_quick_asks_at_least_32_questions(cpu: Profile) -> None:
    for cell in cpu.servers[0].accuracy:
        assert cell.questions.of(quick=True) >= 32
        assert cell.questions.of(quick=False) == cell.questions.full


def twice(data: Data) -> None:
    data["servers"][0]["serving"] *= 2


def too_long(data: Data) -> None:
    data["servers"][0]["serving"][0]["input_tokens"] = 4080


def lone_acceptance(data: Data) -> None:
    data["servers"][0]["speculation"] = None


def own_port(data: Data) -> None:
    data["servers"][0]["arguments"].append("--port=8000")


def own_speculation(data: Data) -> None:
    data["servers"][0]["arguments"] += ["--speculative-config", "{}"]


def idle(data: Data) -> None:
    data["servers"][0]["serving"][0]["concurrency"] = 64


def slow_quick(data: Data) -> None:
    data["servers"][0]["accuracy"][0]["questions"] = {"full": 8, "quick": 9}


def outside(data: Data) -> None:
    data["model"] = {"kind": "local", "path": "../elsewhere"}


def foreign_plugin(data: Data) -> None:
    data["servers"][0]["plugins"] = {"x": "os.path:join"}


def unknown(data: Data) -> None:
    data["servers"][0]["acuracy"] = []


def moving_model(data: Data) -> None:
    data["model"] = {"kind": "hub", "id": "a/b", "revision": "main"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (twice, "share a name: short"),
        (too_long, "short: does not fit in 4064 tokens"),
        (lone_acceptance, "acceptance cells without speculation"),
        (own_port, "--port is set by"),
        (own_speculation, "--speculative-config is set by"),
        (idle, "32 prompts never reach a concurrency of 64"),
        (slow_quick, "quick (9) is more than full (8)"),
        (outside, "must be a path inside the repository"),
        (foreign_plugin, "servers.0.plugins.x"),
        (unknown, "servers.0.acuracy"),
        (moving_model, "model.hub.revision"),
    ],
)
def test_a_mistake_is_named(
    data: Data, change: Callable[[Data], None], message: str
) -> None:
    changed = copy.deepcopy(data)
    change(changed)
    with pytest.raises(UsageError) as caught:
        validate(changed, Profile, where="x.yaml")
    assert message in caught.value.line()
    assert caught.value.line().startswith("x.yaml: ")
