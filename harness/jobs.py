# SPDX-License-Identifier: Apache-2.0
"""A few pieces of work at once, which all end when one fails or is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from harness import processes

P = ParamSpec("P")
T = TypeVar("T")


class Jobs:
    """Runs submitted work in threads, so many at once, in the order submitted.

    Leaving the context waits for all of it, and raises what a piece raised. When it
    is left by an exception (Ctrl-C arrives in the main thread, which waits for a
    result), what has not begun is dropped and every command that the rest runs is
    ended first.
    """

    def __init__(self, at_once: int) -> None:
        self._pool = ThreadPoolExecutor(at_once)
        self._futures: list[Future[Any]] = []

    def submit(self, work: Callable[P, T], *args: P.args, **kw: P.kwargs) -> Future[T]:
        """Hand in one piece of work; its result or exception is in the future."""
        future = self._pool.submit(work, *args, **kw)
        self._futures.append(future)
        return future

    def __enter__(self) -> Jobs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                for future in self._futures:
                    future.result()
        except BaseException:
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        with processes.ending_all():
            self._pool.shutdown(cancel_futures=True)
