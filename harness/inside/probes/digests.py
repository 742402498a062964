# SPDX-License-Identifier: Apache-2.0
"""Tensors as facts: equal if and only if every byte and the layout are."""

from __future__ import annotations

import hashlib
from typing import Any


def describe(tensor: Any) -> dict[str, Any]:
    """Shape, strides (in elements), data type and sha256 of the elements in order.

    ``None`` gives the same keys, all null, so that a tensor that comes or goes is a
    change of facts and not a missing one.
    """
    if tensor is None:
        return {"shape": None, "strides": None, "dtype": None, "sha256": None}
    return {
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "sha256": sha256(tensor),
    }


def sha256(tensor: Any) -> str:
    """Hex digest of the elements' bytes in logical order."""
    import torch

    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()
