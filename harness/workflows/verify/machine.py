# SPDX-License-Identifier: Apache-2.0
"""The machine that measures, as far as a result depends on it."""

from __future__ import annotations

import functools
import os
import platform

import psutil

from harness.models.summary import Machine


@functools.cache
def machine() -> Machine:
    """This machine."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 0,
        memory_bytes=psutil.virtual_memory().total,
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:  # noqa: PTH123
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
