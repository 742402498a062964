# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Protocol

from harness.inside import own_classes

HERE = Path(__file__).parent


class Base:
    @property
    def size(self) -> int:
        return 1


class Layer(Base):
    def forward(self) -> int:
        return 1

    @staticmethod
    def scale() -> int:
        return 1

    @classmethod
    def build(cls) -> Layer:
        return cls()


def _elsewhere(source: str) -> Any:
    """What ``source`` calls ``new``, compiled as if it were in another folder."""
    names: dict[str, Any] = {"functools": functools}
    exec(compile(source, "/elsewhere/plugin.py", "exec"), names)
    return names["new"]


def _said(kind: type) -> dict[str, list[str]]:
    found = own_classes.describe([kind()], __name__, (HERE,))
    return {one["name"].rpartition(".")[2]: one["foreign"] for one in found}


def test_own_methods_are_own() -> None:
    assert _said(Layer) == {"Layer": [], "Base": []}


def test_replaced_methods_are_named() -> None:
    class Replaced(Layer): ...

    new = _elsewhere("def new(self): return 2")
    for name, value in (
        ("forward", new),
        ("scale", staticmethod(new)),
        ("build", classmethod(new)),
        ("size", property(new)),
    ):
        setattr(Replaced, name, value)
    assert _said(Replaced) == {
        "Replaced": ["build", "forward", "scale", "size"],
        "Layer": [],
        "Base": [],
    }


def test_a_wrapper_is_a_replacement() -> None:
    class Wrapped(Layer): ...

    wrap = _elsewhere(
        "def new(f):\n"
        "    @functools.wraps(f)\n"
        "    def inner(self): return f(self)\n"
        "    return inner"
    )
    setattr(Wrapped, "forward", wrap(Layer.forward))  # noqa: B010
    assert _said(Wrapped)["Wrapped"] == ["forward"]


def test_what_typing_adds_to_a_follower_of_a_protocol_is_not_foreign() -> None:
    class Sized(Protocol):
        def size(self) -> int: ...

    class Follower(Sized):
        def size(self) -> int:
            return 1

    assert "__subclasshook__" in vars(Follower)
    assert _said(Follower)["Follower"] == []


def test_other_families_are_left_out() -> None:
    assert own_classes.describe([Layer(), Path()], "other.", (HERE,)) == []
