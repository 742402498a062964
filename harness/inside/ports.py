# SPDX-License-Identifier: Apache-2.0
"""A port on this host that stays free until somebody listens on it.

Binding to port 0 gives a port of the kernel's own range, and the kernel may give it to
the next connection of any process before a server that takes half a minute to start
gets there. Ports below that range go to nobody who does not ask for them.
"""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 10000
"""Below are ports that services are known by."""

_STRIDE = 37
"""Spreads the first choices of processes with neighbouring numbers."""

_asked = itertools.count()


def free_port(host: str = "127.0.0.1") -> int:
    """A port of ``host`` that nobody listens on, and that the kernel gives to nobody.

    Raises:
        OSError: All of them are taken.
    """
    size = _kernels_first() - LOWEST
    start = os.getpid() * _STRIDE + next(_asked)
    for place in range(size):
        port = LOWEST + (start + place) % size
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port of {host} from {LOWEST} on")


def _kernels_first() -> int:
    """The first port that the kernel gives away by itself."""
    try:
        first = int(RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32768
    return max(first, LOWEST + 1000)
