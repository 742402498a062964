# SPDX-License-Identifier: Apache-2.0
"""Why profile cpu-v4 can't serve the compile-cache hazard of patch 0003: no graph.

Should this fail because the server starts, the hazard can be served: ngram, then mtp
with the same cache.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.measure import model
from harness.models.base import load
from harness.models.pin import Upstream
from harness.models.profile import Profile
from harness.paths import Project
from harness.runtime.environment import Environment
from harness.runtime.failure import ServerError
from harness.runtime.overlay import prepare
from harness.runtime.server import serve
from harness.upstream.source import SourceRepository
from harness.upstream.worktrees import measured_worktree
from harness.workflows.verify.boots import server_spec

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

COMPILED = '--compilation-config={"mode":3}'


def test_the_first_triton_kernel_ends_the_trace_of_the_model(
    project: Project,
    tmp_path: Path,
    pinned_source: SourceRepository,
    vllm_environment: Environment,
    upstream: Upstream,
) -> None:
    profile = load(project.configs / "profiles" / "cpu-v4.yaml", Profile)
    (setup,) = (s for s in profile.servers if s.name == "xpu-ngram")
    spec = server_spec(
        profile, setup, model.ensure(project, profile.model, vllm_environment)
    )
    eager = list(spec.arguments)
    eager[eager.index("--enforce-eager")] = COMPILED
    env = {k: v for k, v in spec.env.items() if k != "TORCHDYNAMO_DISABLE"}
    # Else vLLM switches compilation off for this architecture.
    env["VLLM_USE_BREAKABLE_CUDAGRAPH"] = "0"
    tree = measured_worktree(pinned_source.path, pinned_source.commit, tmp_path)
    overlay = prepare(
        Project(tmp_path / "project"),
        tree,
        vllm_environment,
        upstream.version,
        label="base",
        plugins=setup.plugins,
    )
    compiled = replace(spec, arguments=tuple(eager), env=env)
    with (
        pytest.raises(ServerError, match=r"torch\._dynamo\.exc\.Unsupported") as seen,
        serve(overlay, compiled, tmp_path / "out"),
    ):
        pass
    log = seen.value.log.read_text()
    calls = ("deepseek_v4/xpu/model.py", "fused_q_kv_rmsnorm", "runtime/interpreter.py")
    assert [call for call in calls if call not in log] == []
