# SPDX-License-Identifier: Apache-2.0
"""What lm-eval's own class is made to do."""

from __future__ import annotations

from harness.inside.lm_eval_local import only_included


class Manager:
    """In the signature of lm-eval's TaskManager."""

    def __init__(
        self, include_path: str | None = None, include_defaults: bool = True
    ) -> None:
        self.asked = (include_path, include_defaults)


def test_own_tasks_alone() -> None:
    only_included(Manager)
    assert Manager(include_path="tasks").asked == ("tasks", False)


def test_who_asks_for_all_gets_all() -> None:
    only_included(Manager)
    assert Manager(include_defaults=True).asked == (None, True)
