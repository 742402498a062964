# SPDX-License-Identifier: Apache-2.0
"""Which class or function a line belongs to, by an error-tolerant parser."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ast_grep_py import SgNode

from harness.compat.syntax import tree

_DEFINITIONS = frozenset({"class_definition", "function_definition"})


@dataclass(frozen=True)
class Symbols:
    """The definitions of a source file.

    Attributes:
        spans: ``(first line, last line, qualified name)`` with lines from 0, outer
            definitions before inner ones. Decorators belong to their definition.
    """

    spans: tuple[tuple[int, int, str], ...]

    def at(self, line: int) -> str:
        """Qualified name around line ``line`` (from 0); empty at module level."""
        name = ""
        for first, last, qualified in self.spans:
            if first <= line <= last:
                name = qualified
        return name

    def extent(self, name: str) -> tuple[int, int] | None:
        """First and one-past-last line of the definition called ``name``."""
        for first, last, qualified in self.spans:
            if qualified == name:
                return first, last + 1
        return None


def symbols_of(path: str, data: bytes) -> Symbols:
    """The definitions in ``data``; none for files that are not Python."""
    return _python_symbols(data) if path.endswith(".py") else Symbols(())


@lru_cache(maxsize=256)
def _python_symbols(data: bytes) -> Symbols:
    root = tree(data, "python")
    spans: list[tuple[int, int, str]] = []
    stack: list[tuple[SgNode, str]] = [(root, "")]
    while stack:
        node, prefix = stack.pop()
        inner = prefix
        if node.kind() in _DEFINITIONS:
            name = node.field("name")
            inner = f"{prefix}.{name.text()}" if prefix and name else ""
            inner = inner or (name.text() if name else prefix)
            parent = node.parent()
            decorated = parent is not None and parent.kind() == "decorated_definition"
            first = (parent if parent is not None and decorated else node).range().start
            spans.append((first.line, node.range().end.line, inner))
        if node.kind() in _CONTAINERS:
            stack.extend((child, inner) for child in node.children())
    return Symbols(tuple(sorted(spans, key=lambda span: (span[0], -span[1]))))


_CONTAINERS = _DEFINITIONS | {
    "module",
    "block",
    "decorated_definition",
    "if_statement",
    "elif_clause",
    "else_clause",
    "try_statement",
    "except_clause",
    "finally_clause",
    "with_statement",
    "for_statement",
    "while_statement",
}
"""Where definitions can be; expressions are not searched."""
