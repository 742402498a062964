# SPDX-License-Identifier: Apache-2.0
"""A few pieces of work at once, which all end when one fails or is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_once
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from harness import processes

P = ParamSpec("P")
T = TypeVar("T")

_LOOK = 0.5
"""Seconds after which a waiting thread looks for signals."""


def as_completed(futures: Iterable[Future[T]]) -> Iterator[Future[T]]:
    """As the standard library's, but Ctrl-C is heard while it waits.

    The kernel may hand a signal to any thread. Python notes it there, and raises
    KeyboardInterrupt in the main thread as soon as that one wakes: in a wait without a
    timeout only when the work has ended, minutes later.
    """
    left = set(futures)
    while left:
        done, left = wait_once(left, timeout=_LOOK, return_when=FIRST_COMPLETED)
        yield from done


def wait(futures: Iterable[Future[T]]) -> None:
    """Return when all have ended; Ctrl-C is heard before."""
    for _ in as_completed(futures):
        pass


def result(future: Future[T]) -> T:
    """What the work returned; Ctrl-C is heard while it runs."""
    wait([future])
    return future.result()


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
                    result(future)
        except BaseException:
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        with processes.ending_all():
            self._pool.shutdown(cancel_futures=True)
