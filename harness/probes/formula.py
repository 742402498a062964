# SPDX-License-Identifier: Apache-2.0
"""Whole-number arithmetic for claims: ``=-n * hidden * 2``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from harness.errors import UsageError

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of ``text`` with ``names``.

    Integers, names, parentheses, ``+ - * // %`` and unary minus; nothing else, so that
    a claims file can't run code.

    Raises:
        UsageError: Another expression, an unknown name, or a division by zero.
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, ZeroDivisionError) as error:
        raise UsageError(f"no formula: {error}", where=text) from error
    except KeyError as error:
        known = ", ".join(sorted(names)) or "none"
        raise UsageError(
            f"unknown name {error.args[0]} in a formula",
            where=text,
            fix=f"known: {known}",
        ) from error


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as number):
            return int(number)
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case _:
            raise SyntaxError(f"{type(node).__name__} is not allowed")
