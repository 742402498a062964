# SPDX-License-Identifier: Apache-2.0
"""Triton's interpreter with narrow floating-point types computed as they should be.

The interpreter keeps a bfloat16 or fp8 value as an integer of its bits. Arithmetic,
``tl.dot`` and conversions of Triton 3.6 then work on those integers, or cut where they
should round (runtime/interpreter.py:202, :464, :489, :629). Here such values are
widened to float32 first, and a result is rounded to nearest even. As on a GPU, a
conversion of a finite number to fp8 saturates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

Handle = Any
"""triton.runtime.interpreter.TensorHandle: ``data``, a numpy array, and ``dtype``."""

_NARROW = {
    "bf16": (torch.bfloat16, np.uint16),
    "fp8e4nv": (torch.float8_e4m3fn, np.uint8),
    "fp8e4b8": (torch.float8_e4m3fnuz, np.uint8),
    "fp8e5": (torch.float8_e5m2, np.uint8),
    "fp8e5b16": (torch.float8_e5m2fnuz, np.uint8),
}
"""Triton's name of a type that numpy lacks, torch's type, and what holds its bits."""


def is_narrow(dtype: Any) -> bool:
    return dtype.scalar.name in _NARROW


def widen(bits: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """The values, in float32, of narrow floating-point numbers given by their bits."""
    kind, _ = _NARROW[dtype.scalar.name]
    values = torch.from_numpy(np.array(bits, order="C", copy=True))
    wide: np.ndarray[Any, Any] = values.view(kind).float().numpy()
    return wide.reshape(bits.shape)


def narrow(values: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """The bits of ``values`` rounded to the nearest number of a narrow type.

    Finite values beyond the largest fp8 number become that number.
    """
    kind, holder = _NARROW[dtype.scalar.name]
    wide = torch.from_numpy(np.array(values, dtype=np.float32, order="C", copy=True))
    if kind.itemsize == 1:
        largest = torch.finfo(kind).max
        wide = torch.where(wide.isfinite(), wide.clamp(-largest, largest), wide)
    bits: np.ndarray[Any, Any] = wide.to(kind).view(_BITS[kind.itemsize]).numpy()
    return bits.view(holder).reshape(values.shape)


_BITS = {1: torch.uint8, 2: torch.int16}


def _holds_bits(handle: Handle) -> bool:
    """Whether the data are bits; a comparison leaves truth values of a narrow type."""
    return is_narrow(handle.dtype) and handle.data.dtype != np.bool_


def _wide(handle: Handle) -> Handle:
    """The same values in a handle that numpy can compute with."""
    if not _holds_bits(handle):
        return handle
    data = widen(handle.data, handle.dtype)
    return interpreter.TensorHandle(data, tl.float32)


def _like(result: np.ndarray[Any, Any], dtype: Any) -> Handle:
    """``result`` as a value of ``dtype``; truth values stay what they are."""
    if is_narrow(dtype) and result.dtype != np.bool_:
        result = narrow(result, dtype)
    return interpreter.TensorHandle(result, dtype.scalar)


def _elementwise(
    original: Callable[..., Handle], decides: int
) -> Callable[..., Handle]:
    """``original`` for narrow operands; operand ``decides`` gives the result's type."""

    @functools.wraps(original)
    def computed(builder: Any, *operands: Any) -> Handle:
        handles = [o for o in operands if isinstance(o, interpreter.TensorHandle)]
        if not any(_holds_bits(handle) for handle in handles):
            return original(builder, *operands)
        widened = [
            _wide(o) if isinstance(o, interpreter.TensorHandle) else o for o in operands
        ]
        result = original(builder, *widened)
        return _like(result.data, handles[decides].dtype)

    return computed


def _convert(original: Callable[..., Handle]) -> Callable[..., Handle]:
    """Conversions from or to a narrow type."""

    @functools.wraps(original)
    def converted(builder: Any, source: Handle, target: Any, *rest: Any) -> Handle:
        if not (_holds_bits(source) or is_narrow(target)):
            return original(builder, source, target, *rest)
        values = _wide(source).data
        if is_narrow(target):
            return interpreter.TensorHandle(narrow(values, target), target.scalar)
        kind = interpreter._get_np_dtype(target)
        return interpreter.TensorHandle(values.astype(kind), target.scalar)

    return converted


def _dot(original: Callable[..., Handle]) -> Callable[..., Handle]:
    @functools.wraps(original)
    def dot(builder: Any, a: Handle, b: Handle, d: Handle, *rest: Any) -> Handle:
        if not any(is_narrow(handle.dtype) for handle in (a, b, d)):
            return original(builder, a, b, d, *rest)
        # A product of two narrow numbers is exact in float32, where GPUs add them up.
        total = np.matmul(_wide(a).data, _wide(b).data) + _wide(d).data
        return _like(total, d.dtype)

    return dot


def install() -> None:
    """Correct the interpreter of this process, once."""
    builder = interpreter.InterpreterBuilder
    for name, decides in (("binary_op", 0), ("unary_op", 0), ("ternary_op", -1)):
        setattr(builder, name, _elementwise(getattr(builder, name), decides))
    for name, decides in (("create_fma", -1), ("create_rsqrt", 0), ("create_erf", 0)):
        setattr(builder, name, _elementwise(getattr(builder, name), decides))
    for name in ("cast_impl", "create_fp_to_fp"):
        setattr(builder, name, _convert(getattr(builder, name)))
    builder.create_dot = _dot(builder.create_dot)
