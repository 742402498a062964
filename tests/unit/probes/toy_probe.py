# SPDX-License-Identifier: Apache-2.0
"""A probe for another "model": shows what a new probe takes, without torch.

The tree under test holds ``toy/model.py`` with ``numbers(rank)``.
"""

from __future__ import annotations

import importlib
import os
import signal

from harness.inside.probes.context import Context
from harness.inside.standins import StandIn

NOTHING = StandIn(
    name="nothing",
    replaces="nothing, by nothing",
    reason="to be listed (toy/model.py:1)",
    install=lambda: None,
)


def warm() -> None:
    importlib.import_module("toy.model")


def run(context: Context) -> None:
    context.use(NOTHING)
    model = importlib.import_module("toy.model")
    how = context.parameters.get("how", "run")
    if how == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        signal.pause()
    for name, value in model.numbers(context.rank).items():
        context.fact(name, value)
