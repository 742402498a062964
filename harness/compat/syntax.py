# SPDX-License-Identifier: Apache-2.0
"""Syntax trees, parsed once each, by a parser that tolerates errors."""

from __future__ import annotations

from functools import lru_cache

from ast_grep_py import SgNode, SgRoot


@lru_cache(maxsize=256)
def tree(data: bytes, language: str) -> SgNode:
    """The root node of ``data``."""
    return SgRoot(data.decode("utf-8", "replace"), language).root()
