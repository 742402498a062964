# SPDX-License-Identifier: Apache-2.0
"""What a server holds: resident memory of its processes, blocks of its KV cache."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import psutil

from harness.errors import InfrastructureError
from harness.measure.metrics import Snapshot
from harness.models.facts import MemoryFacts

_CACHE_LINE = re.compile(r"Available KV cache memory: .*$")
_MODEL_LINE = re.compile(r"Model loading took ([0-9.]+) GiB")


def measure(
    processes: Iterable[psutil.Process], snapshot: Snapshot, log: Sequence[str]
) -> MemoryFacts:
    """Add up what the server's processes hold now.

    A buffer that nothing has written to takes no page: resident memory does not see
    it. Allocations are counted by the probes.

    Args:
        processes: All of the server's processes.
        snapshot: Its counters.
        log: Lines of its log.

    Raises:
        InfrastructureError: A process is gone, or the server tells no block count.
    """
    rss, pss, count = 0, 0, 0
    counted_pss = True
    for process in processes:
        try:
            full = process.memory_full_info()
        except psutil.Error as error:
            raise InfrastructureError(
                f"memory of process {process.pid} can't be read: {error}",
                where="the server",
            ) from error
        rss += full.rss
        pss += getattr(full, "pss", 0)
        counted_pss = counted_pss and hasattr(full, "pss")
        count += 1
    if not count or not snapshot.cache_blocks:
        raise InfrastructureError(
            f"{count} processes and {snapshot.cache_blocks} KV-cache blocks are told",
            where="the server",
        )
    told = [m.group() for line in log if (m := _CACHE_LINE.search(line))]
    return MemoryFacts(
        processes=count,
        rss_bytes=rss,
        pss_bytes=pss if counted_pss else None,
        kv_cache_blocks=snapshot.cache_blocks,
        kv_cache_block_tokens=snapshot.block_tokens,
        kv_cache_log=told[-1] if told else None,
        model_gib=tuple(
            sorted(float(m[1]) for line in log if (m := _MODEL_LINE.search(line)))
        ),
    )
