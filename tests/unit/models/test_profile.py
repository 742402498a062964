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
from harness.models.claims import FigureStatus, PatchClaims
from harness.models.profile import Device, LocalModel, Profile, ServerSetup
from harness.models.reference import ReferenceManifest
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
    assert cpu.model == LocalModel(kind="local", path="configs/reference-model/model")
    (server,) = cpu.servers
    arguments = server.server_arguments()
    assert "--no-enable-prefix-caching" in arguments
    compilation = next(a for a in arguments if a.startswith("--compilation-config="))
    # Without this the rotary embedding of the query is wrong on CPUs.
    custom = json.loads(compilation.split("=", 1)[1])["custom_ops"]
    assert "-rotary_embedding" in custom
    spec = json.loads(arguments[arguments.index("--speculative-config") + 1])
    assert spec == {"method": "mtp", "num_speculative_tokens": 2}
    assert server.environment["VLLM_MLA_DISABLE"] == "1"


def test_every_profile_is_named_as_its_file_and_covers_the_series() -> None:
    series = load(ROOT / "patches" / "series.yaml", Series)
    numbers = {patch.number for patch in series.patches}
    for path in sorted((ROOT / "configs" / "profiles").glob("*.yaml")):
        profile = load(path, Profile)
        assert profile.name == path.stem
        assert set(profile.coverage) == numbers


def test_answers_end_at_the_token_that_ends_the_reference_model_s() -> None:
    folder = ROOT / "configs" / "reference-model"
    manifest = load(folder / "manifest.json", ReferenceManifest)
    cells = [
        cell
        for name in ("cpu", "cpu-sp")
        for server in load(
            ROOT / "configs" / "profiles" / f"{name}.yaml", Profile
        ).servers
        for cell in server.acceptance
    ]
    ends = {cell.stop_token_ids for cell in cells if cell.name == "answers"}
    assert ends == {(manifest.answer_end,)}


def gpu_profiles() -> list[Profile]:
    every = sorted((ROOT / "configs" / "profiles").glob("*.yaml"))
    loaded = [load(path, Profile) for path in every]
    return [profile for profile in loaded if profile.device is not Device.CPU]


def test_every_gpu_profile_measures_what_a_verdict_needs() -> None:
    found = gpu_profiles()
    assert {profile.device for profile in found} == {
        Device.CUDA, Device.ROCM, Device.XPU,
    }  # fmt: skip
    for profile in found:
        assert not profile.gates.serving_accuses_only
        assert profile.gates.pairs.full >= 5, "the sign-flip test says nothing below"
        assert "Not run yet" in profile.description
        assert f"PROFILE={profile.name}" in " ".join(profile.description.split())
        asked = [cell for server in profile.servers for cell in server.accuracy]
        assert asked
        for cell in asked:
            assert (cell.data, cell.fewshot, cell.questions.full) == ("gsm8k", 5, 1319)
            assert cell.max_gen_toks >= 8192
        drafting = [server for server in profile.servers if server.speculation]
        methods = {_rejection(server) for server in drafting}
        assert methods == {"standard", "synthetic"}
        for server in profile.servers:
            low, high = sorted(cell.concurrency for cell in server.serving)
            assert low <= 4 < high
            assert "--no-enable-prefix-caching" in server.arguments
            # Made-up acceptance gives made-up answers.
            synthetic = server in drafting and _rejection(server) == "synthetic"
            assert bool(server.accuracy) is not synthetic


def _rejection(server: ServerSetup) -> str:
    assert server.speculation is not None
    return str(server.speculation.options.get("rejection_sample_method", "standard"))


def test_the_buffer_patches_are_served_without_speculation() -> None:
    for profile in gpu_profiles():
        if any(profile.coverage[number].runs for number in ("0001", "0002", "0004")):
            assert any(server.speculation is None for server in profile.servers)


def test_sequence_parallel_experts_are_served_where_0005_runs() -> None:
    for profile in gpu_profiles():
        if not profile.coverage["0005"].runs:
            continue
        for server in profile.servers:
            sizes = dict(a.split("=", 1) for a in server.arguments if "size=" in a)
            assert int(sizes["--tensor-parallel-size"]) > 1
            assert int(sizes["--data-parallel-size"]) > 1
            assert "--enable-expert-parallel" in server.arguments
            assert "--all2all-backend=allgather_reducescatter" in server.arguments


def test_each_patch_runs_in_some_gpu_profile() -> None:
    numbers = {
        number
        for profile in gpu_profiles()
        for number, coverage in profile.coverage.items()
        if coverage.runs
    }
    assert numbers == {"0001", "0002", "0003", "0004", "0005"}


def test_a_server_tells_of_patches_up_to_its_own() -> None:
    profile = load(ROOT / "configs" / "profiles" / "cpu-v4.yaml", Profile)
    (amd,) = (s for s in profile.servers if s.name == "amd-mtp")
    told = [number for number in ("0001", "0002", "0004") if amd.judges(number)]
    assert told == ["0001"]
    assert amd.model_copy(update={"patches": ()}).judges("0004")


def test_every_figure_that_needs_a_gpu_has_a_profile_for_it() -> None:
    wanted = set()
    for path in sorted((ROOT / "patches" / "claims").glob("*.yaml")):
        claims = load(path, PatchClaims)
        for figure in claims.figures:
            if figure.status is FigureStatus.NOT_MEASURED:
                wanted.add((claims.patch, figure.text))
    named = {
        (number, text)
        for profile in gpu_profiles()
        for number, texts in profile.unmeasured.items()
        for text in texts
    }
    assert named == wanted
    assert wanted


def test_quick_asks_at_least_32_real_questions(cpu: Profile) -> None:
    (cell,) = (c for c in cpu.servers[0].accuracy if c.data == "gsm8k")
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


def no_machines(data: Data) -> None:
    data["device"] = "cuda"


def too_few_devices(data: Data) -> None:
    data |= {"device": "cuda", "machines": {"devices": 4}}
    data["servers"][0]["arguments"] += ["--tensor-parallel-size=8"]


def no_way_to_the_other_machine(data: Data) -> None:
    data |= {"device": "cuda", "machines": {"devices": 4, "nodes": 2}}
    data["servers"][0]["arguments"] += ["--tensor-parallel-size=8"]


def too_long_answers(data: Data) -> None:
    data["servers"][0]["accuracy"][0]["max_gen_toks"] = 4080


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
        (no_machines, "machines: how many devices"),
        (too_few_devices, "mtp: 8 workers on 4 devices"),
        (no_way_to_the_other_machine, "one of --data-parallel-backend=ray"),
        (too_long_answers, "problems: does not fit in 4064 tokens"),
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
