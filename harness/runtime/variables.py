# SPDX-License-Identifier: Apache-2.0
"""The environment variables that a measured program may see from the user's shell.

An allowlist: a stray VLLM_, PYTHONPATH or OMP_NUM_THREADS would change what is
measured without leaving a trace in the result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TMPDIR",
        "TZ",
        "LD_LIBRARY_PATH",
        # The way to a model or data hub.
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "HF_HOME",
        "HF_TOKEN",
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
        "HF_DATASETS_OFFLINE",
        # The cluster that vLLM's Ray backend joins.
        "RAY_ADDRESS",
        # Which devices are ours, and where their tools are.
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_HOME",
        "CUDA_PATH",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCM_PATH",
        "ZE_AFFINITY_MASK",
        "ONEAPI_DEVICE_SELECTOR",
    }
)
_PREFIXES = ("LC_", "NVIDIA_", "NCCL_")

_FIXED = {
    # `python -m` puts the current folder first on the path unless told not to.
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONHASHSEED": "0",
    # Nothing that is measured here is reported to anybody.
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # A proxy must not stand between a client and the server on this machine.
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


def child_environment(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a measured program gets of ``inherited`` (default: our environment)."""
    source = os.environ if inherited is None else inherited
    kept = {k: v for k, v in source.items() if k in _NAMES or k.startswith(_PREFIXES)}
    return {**kept, **_FIXED}
