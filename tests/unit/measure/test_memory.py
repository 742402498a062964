# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from harness.errors import InfrastructureError
from harness.measure import memory
from harness.measure.metrics import Snapshot

SNAPSHOT = Snapshot({}, cache_blocks=64, block_tokens=128)


def test_processes_are_added_up() -> None:
    log = ["x Available KV cache memory: 1.00 GiB", "y"]
    me = psutil.Process()
    facts = memory.measure([me], SNAPSHOT, log)
    assert facts.rss_bytes > 1 << 20
    assert facts.kv_cache_blocks == 64
    assert facts.kv_cache_log == "Available KV cache memory: 1.00 GiB"
    assert memory.measure([me, me], SNAPSHOT, []).rss_bytes > 1.5 * facts.rss_bytes


def test_the_largest_worker_comes_last() -> None:
    log = [
        "(Worker_TP1) Model loading took 9.45 GiB memory and 3.2 seconds",
        "(Worker_TP0) Model loading took 9.01 GiB and 3.2 seconds",
    ]
    facts = memory.measure([psutil.Process()], SNAPSHOT, log)
    assert facts.model_gib == (9.01, 9.45)
    assert memory.measure([psutil.Process()], SNAPSHOT, []).model_gib == ()


def test_nothing_to_tell_is_no_number() -> None:
    with pytest.raises(InfrastructureError, match="0 processes"):
        memory.measure([], SNAPSHOT, [])
    with pytest.raises(InfrastructureError, match="0 KV-cache blocks"):
        memory.measure([psutil.Process()], replace(SNAPSHOT, cache_blocks=0), [])


def test_a_process_that_is_gone_is_told() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    gone = psutil.Process(child.pid)
    child.wait()
    with pytest.raises(InfrastructureError, match="can't be read"):
        memory.measure([gone], SNAPSHOT, [])
