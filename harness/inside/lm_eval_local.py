# SPDX-License-Identifier: Apache-2.0
"""lm-eval's command line, with the tasks of ``--include_path`` alone.

Run in lm-eval's environment, as ``lm_eval`` is. At every start lm-eval reads all the
task files that it comes with (tasks/manager.py:82), thousands of them, for most of the
time that a few questions take. A task of ours names the one that it is made of by its
path, and needs no index to find it.
"""

from __future__ import annotations

import functools
from typing import Any


def only_included(manager: Any) -> None:
    """Make ``manager``, lm-eval's TaskManager, index no tasks of its own."""
    manager.__init__ = functools.partialmethod(manager.__init__, include_defaults=False)


def main() -> None:
    """The command line, which is lm-eval's."""
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.tasks import TaskManager

    only_included(TaskManager)
    cli_evaluate()


if __name__ == "__main__":
    main()
