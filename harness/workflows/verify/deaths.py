# SPDX-License-Identifier: Apache-2.0
"""Servers that die of an exception each time: their tree's fault.

One dead server may be an accident. Two fresh starts that end with the same exception
at the same line are not, if the state before serves with the same setup in the same
run. Everything else that ends a server (memory, signals, ports, deadlines) is of the
machine, however often it happens.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.errors import InfrastructureError
from harness.runtime.failure import Cause, ServerError

_RAISED = (Cause.EXCEPTION, Cause.IMPORT)


def exception_of(error: InfrastructureError) -> str:
    """The exception that ended a server, with its place in the source; "" if it ended
    otherwise, or did not end."""
    if isinstance(error, ServerError) and error.diagnosis.cause in _RAISED:
        return " ".join(error.diagnosis.text.split())
    return ""


def repeated(error: InfrastructureError, again: Callable[[], object]) -> str:
    """The exception of ``error``, if a fresh start ends with it too; else "".

    Args:
        again: Repeats the start; called only if an exception ended the first.
    """
    first = exception_of(error)
    if not first:
        return ""
    try:
        again()
    except InfrastructureError as second:
        return first if exception_of(second) == first else ""
    return ""
