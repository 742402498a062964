# SPDX-License-Identifier: Apache-2.0
"""Whether classes are the tree's own, method by method, as a process has them."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any


def describe(objects: Iterable[Any], family: str, homes: tuple[Path, ...]) -> Any:
    """The classes of ``objects`` that belong to a family of modules.

    Args:
        family: Beginning of the names of their modules, as ``vllm.models.``.
        homes: Folders whose code is expected: the tree's package, and torch's, whose
            decorators may lie around a method.

    Returns:
        For each class, by name: ``name`` and ``foreign``, the names of its methods
        whose code is from somewhere else.
    """
    kinds = {
        f"{kind.__module__}.{kind.__qualname__}": kind
        for one in objects
        for kind in type(one).__mro__
        if kind.__module__.startswith(family)
    }
    return [
        {"name": name, "foreign": sorted(_foreign(kind, homes))}
        for name, kind in sorted(kinds.items())
    ]


def _foreign(kind: type, homes: tuple[Path, ...]) -> Iterator[str]:
    for name, attribute in vars(kind).items():
        for function in _functions(attribute):
            if function.__code__.co_filename == typing.__file__:
                continue  # What typing gives every class that follows a protocol.
            # Not unwrapped: a wrapper of ours would be the method that runs.
            file = Path(function.__code__.co_filename).resolve()
            if not any(file.is_relative_to(home.resolve()) for home in homes):
                yield name


def _functions(attribute: Any) -> Iterator[FunctionType]:
    if isinstance(attribute, (staticmethod, classmethod)):
        attribute = attribute.__func__
    if isinstance(attribute, property):
        accessors = (attribute.fget, attribute.fset, attribute.fdel)
        yield from (f for f in accessors if isinstance(f, FunctionType))
    elif isinstance(attribute, FunctionType):
        yield attribute
