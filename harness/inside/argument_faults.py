# SPDX-License-Identifier: Apache-2.0
"""Every fault of a command line, from a parser that stops at the first.

A parser's error ends the program, and names one argument. Here it becomes a fault of
that argument, which is then left out and the rest parsed again.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn, TypedDict

_NAMED = re.compile(r"argument (\S+): (.*)", re.DOTALL)
_UNKNOWN = "unrecognized arguments: "
_ROUNDS = 50
"""More faults than any command line is worth reporting."""


class Fault(TypedDict):
    """What is wrong with one argument; ``argument`` is empty when none is named."""

    argument: str
    message: str


class ParserError(Exception):
    """What a parser would have ended the program with."""


@contextlib.contextmanager
def parser_errors() -> Iterator[None]:
    """Errors of any parser are raised, not printed, and end nothing."""

    def error(self: argparse.ArgumentParser, message: str) -> NoReturn:
        raise ParserError(message)

    changed = {}
    for kind in [argparse.ArgumentParser, *_below(argparse.ArgumentParser)]:
        if "error" in vars(kind):
            changed[kind] = vars(kind)["error"]
            setattr(kind, "error", error)  # noqa: B010  mypy allows no other way
    try:
        yield
    finally:
        for kind, original in changed.items():
            setattr(kind, "error", original)  # noqa: B010


def parse(
    words: Sequence[str],
    parser: Callable[[list[str]], argparse.Namespace],
    options: Iterable[str],
) -> tuple[argparse.Namespace | None, list[Fault]]:
    """Parse, without what is at fault.

    Args:
        words: What follows the program's name.
        parser: Raises :class:`ParserError`; see :func:`parser_errors`.
        options: The options there are, for a suggestion.

    Returns:
        The arguments that are right (None if even they don't make a line), and the
        faults.
    """
    rest = list(words)
    known = sorted(set(options))
    faults: list[Fault] = []
    for _ in range(_ROUNDS):
        try:
            return parser(rest), faults
        except ParserError as error:
            found = _faults(str(error), known)
            faults += found
            shorter = rest
            for fault in found:
                shorter = _without(shorter, fault["argument"])
            if shorter == rest:
                return None, faults
            rest = shorter
    return None, faults


def repeated(words: Sequence[str]) -> list[Fault]:
    """Options that are given more than once: the last one wins in silence."""
    names = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [
        {"argument": name, "message": "is given more than once"}
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def closest(name: str, known: Iterable[str]) -> str:
    """ " (did you mean X?)", or nothing when nothing is close."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f" (did you mean {found[0]}?)" if found else ""


def _faults(message: str, known: list[str]) -> list[Fault]:
    if message.startswith(_UNKNOWN):
        words = message.removeprefix(_UNKNOWN).split()
        names = [word.partition("=")[0] for word in words if word.startswith("-")]
        return [
            {"argument": name, "message": f"is unknown{closest(name, known)}"}
            for name in names or words[:1]
        ]
    named = _NAMED.match(message)
    if named is None:
        return [{"argument": "", "message": " ".join(message.split())}]
    return [{"argument": named[1], "message": " ".join(named[2].split())}]


def _without(words: Sequence[str], argument: str) -> list[str]:
    """``words`` without the option and its values."""
    names = [name for name in argument.split("/") if name]
    kept: list[str] = []
    dropping = False
    for word in words:
        if word.partition("=")[0] in names:
            dropping = "=" not in word
        elif not dropping or word.startswith("-"):
            dropping = False
            kept.append(word)
    return kept


def _below(
    kind: type[argparse.ArgumentParser],
) -> Iterator[type[argparse.ArgumentParser]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)
