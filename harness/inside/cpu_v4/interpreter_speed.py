# SPDX-License-Identifier: Apache-2.0
"""Triton's interpreter without work that changes no result.

For every addition and multiplication of integers it computes whether they overflow, for
an assertion that it then leaves out (language/semantic.py:212, ``device_assert``
without ``debug``). For every type it is asked for numpy's, it makes the table of all
(runtime/interpreter.py:171). At every call of a kernel it searches the language for its
builtins (:868), which are always the same. Every value gets a type and a shape of its
own (language/core.py:696, :861), of which a kernel has a handful; to compare two shapes
it makes a new tuple, and a type for it (:1297). And where executed lines are traced,
the interpreter's own are left out: a kernel calls thousands of functions, none of them
a model's.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def install() -> None:
    """Speed up the interpreter of this process, once."""
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    interpreter._get_np_dtype = _numpy_types(interpreter._get_np_dtype)
    interpreter._patch_builtin = _patch_builtin
    interpreter.GridExecutor.__call__ = untraced(interpreter.GridExecutor.__call__)
    tl.block_type.__init__ = block_types(tl.block_type.__init__)
    tl.tensor.__init__ = tensors(tl.tensor.__init__)
    tl.tuple.__eq__ = equal(tl.tuple.__eq__)


def _numpy_types(original: Any) -> Any:
    """Numpy's type of a type of Triton; that of a block is its elements'."""
    known: dict[str, Any] = {}

    def numpy_type(kind: Any) -> Any:
        element = kind.element_ty if isinstance(kind, tl.block_type) else kind
        found = known.get(element.name)
        if found is None:
            found = known[element.name] = original(element)
        return found

    return numpy_type


_builtins: dict[Any, list[str]] = {}


def _patch_builtin(package: Any, builder: Any, scope: Any) -> None:
    """As the interpreter's own. The first call meets a language that is not patched:
    a kernel that calls another finds the other's builtins patched already."""
    if package not in _builtins:
        _builtins[package] = [
            name
            for name, member in inspect.getmembers(package)
            if tl.core.is_builtin(member)
        ]
    for name in _builtins[package]:
        member = getattr(package, name)
        if tl.core.is_builtin(member):
            interpreter._patch_attr(package, name, member, builder, scope)


def untraced(original: Any) -> Any:
    """``original`` with the thread's trace function put aside while it runs."""

    @functools.wraps(original)
    def call(*words: Any, **named: Any) -> Any:
        tracer = sys.gettrace()
        if tracer is None:
            return original(*words, **named)
        sys.settrace(None)
        try:
            return original(*words, **named)
        finally:
            sys.settrace(tracer)

    return call


def block_types(original: Any) -> Any:
    """``block_type.__init__`` that works a type out once. Nobody changes one."""
    known: dict[Any, dict[str, Any]] = {}

    def initialise(self: Any, element_ty: Any, shape: Any) -> None:
        space = getattr(element_ty, "address_space", None)
        key = (element_ty.name, space, *map(_plain, shape))
        found = known.get(key)
        if found is None:
            original(self, element_ty, shape)
            known[key] = dict(vars(self))
        else:
            vars(self).update(found)

    return initialise


def tensors(original: Any) -> Any:
    """``tensor.__init__`` that makes a shape's constants once."""
    known: dict[Any, tuple[Any, Any]] = {}

    def initialise(self: Any, handle: Any, type: Any) -> None:
        key = type.shape if type.is_block() else ()
        found = known.get(key)
        if found is None:
            original(self, handle, type)
            known[key] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = found

    return initialise


def equal(original: Any) -> Any:
    """``tuple.__eq__`` that makes nothing new to compare shapes."""

    def compare(self: Any, other: Any) -> Any:
        if self is other:
            return tl.constexpr(True)
        if type(other) is tl.tuple:
            sizes, others = _sizes(self), _sizes(other)
            if sizes is not None and others is not None:
                return tl.constexpr(sizes == others)
        return original(self, other)

    return compare


def _sizes(shape: Any) -> list[int] | None:
    """The numbers of a shape; None for a tuple of something else."""
    sizes = [_plain(size) for size in shape.values]
    return sizes if all(type(size) is int for size in sizes) else None


def _plain(size: Any) -> Any:
    return size.value if isinstance(size, tl.constexpr) else size
