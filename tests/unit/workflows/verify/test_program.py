# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from harness.workflows.verify import program


@pytest.mark.parametrize(
    ("changed", "served", "probed"),
    [
        ("proof.py", True, True),
        ("cpu_sp/plugin.py", True, True),
        ("probes/observers.py", False, True),
        ("reference/train.py", False, False),
    ],
)
def test_only_what_a_process_may_load_is_in_its_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: str,
    served: bool,
    probed: bool,
) -> None:
    monkeypatch.setattr(program, "default_root", lambda: tmp_path)
    path = tmp_path / "harness" / "inside" / changed
    path.parent.mkdir(parents=True)

    def digests(text: str) -> tuple[str, str]:
        path.write_text(text)
        program._digest.cache_clear()
        return program.served_program(), program.probed_program()

    before, after = digests("a = 1\n"), digests("a = 2\n")
    program._digest.cache_clear()
    assert (before[0] != after[0], before[1] != after[1]) == (served, probed)
