# SPDX-License-Identifier: Apache-2.0
"""The profiles' command lines, parsed by the pinned vLLM and lm-eval themselves."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from harness.measure.runner import Client
from harness.models.base import validate
from harness.models.pin import Upstream
from harness.models.profile import Profile
from harness.paths import Project, default_root
from harness.report.profiles import load_profiles
from harness.runtime import environment
from harness.runtime.environment import Environment
from harness.runtime.overlay import prepare
from harness.upstream.source import SourceRepository
from harness.upstream.worktrees import measured_worktree
from harness.workflows.profile_check import check

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

PROJECT = Project(default_root())


def broken(profile: Profile) -> Profile:
    """A copy with mistakes of every kind that a profile's text allows."""
    data = copy.deepcopy(profile.model_dump(mode="json"))
    data["name"] = "broken"
    off, mtp, synthetic = data["servers"]
    off["arguments"].append("--max-num-batched-tokns=8192")
    off["arguments"].append("--block-size=many")
    off["environment"]["VLLM_ROCM_USE_AITR"] = "1"
    mtp["speculation"]["options"]["rejection_sampl_method"] = "standard"
    mtp["accuracy"][0]["score"] = "strict-macth"
    synthetic["speculation"]["options"]["synthetic_acceptance_length"] = 9
    synthetic["arguments"].append('--model-class-overrides={"NoSuchModel":"x:Y"}')
    return validate(data, Profile, where="broken")


def test_only_a_broken_profile_has_faults_and_each_is_named(
    pinned_source: SourceRepository,
    vllm_environment: Environment,
    upstream: Upstream,
    tmp_path: Path,
) -> None:
    tree = measured_worktree(pinned_source.path, pinned_source.commit, tmp_path)
    project = Project(tmp_path / "project")
    runner = prepare(project, tree, vllm_environment, upstream.version, label="x")
    client = Client(environment.ensure(PROJECT, "lm-eval"))
    profiles = load_profiles(PROJECT)
    amd = next(profile for profile in profiles if profile.name == "mi355x-dsv4-pro")
    count, faults = check([*profiles, broken(amd)], runner, client, say=print)
    assert count > 70
    prefix = "configs/profiles/broken.yaml: server "
    for fault in faults:
        assert fault.line().startswith(prefix), fault.line()
    found = {(f.place.server, f.argument): f.message for f in faults}
    assert found.pop(("off", "--block-size")).startswith("invalid int value: 'many'")
    assert found == {
        ("off", "--max-num-batched-tokns"): (
            "is unknown (did you mean --max-num-batched-tokens?)"
        ),
        ("off", "VLLM_ROCM_USE_AITR"): (
            "no such variable (did you mean VLLM_ROCM_USE_AITER?)"
        ),
        ("mtp", "--speculative-config"): (
            "rejection_sampl_method: is no key of it "
            "(did you mean rejection_sample_method?)"
        ),
        ("mtp", "score"): (
            "local_gsm8k has no filter strict-macth (did you mean strict-match?)"
        ),
        ("mtp-synthetic", "--speculative-config"): (
            "synthetic_acceptance_length must be in [1, 3], got 9."
        ),
        ("mtp-synthetic", "--model-class-overrides"): (
            "NoSuchModel: x:Y is no class of this tree"
        ),
    }
