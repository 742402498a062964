# SPDX-License-Identifier: Apache-2.0
"""What a user types reaches the command: each setting that has an option there."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess

import pytest

from harness.cli import parser
from harness.paths import default_root

ROOT = default_root()
SETTINGS = {
    "SOURCE": "sdist",
    "PROFILE": "some-profile",
    "TAG": "v0.27.0",
    "SINCE": "v0.21.0",
    "SERIES": "some/series",
    "DIR": "some/folder",
    "OUTPUT": "some/output",
    "PYTHON": "some/python",
    "REVISION": "0123abc",
    "QUICK": "1",
    "FORCE": "1",
    "CONTINUE": "1",
    "JSON": "1",
}
WANTED = {
    "source": "sdist",
    "profile": "some-profile",
    "names": "some-profile",
    "tag": "v0.27.0",
    "since": "v0.21.0",
    "series": "some/series",
    "folder": "some/folder",
    "merge": "some/folder",
    "output": "some/output",
    "python": "some/python",
    "model_revision": "0123abc",
    "quick": "True",
    "force": "True",
    "anew": "True",
    "go_on": "True",
    "json": "True",
}
"""By the name that the parser gives an option; a command without it ignores it."""
OTHERWISE = {"ci-pending": {"json"}}
"""Prints JSON always."""


def targets() -> list[str]:
    """The targets that run a command of the harness."""
    text = (ROOT / "Makefile").read_text()
    return re.findall(r"^([a-z-]+):.*\n\t@\$\(HARNESS\)", text, re.MULTILINE)


def typed(target: str) -> argparse.Namespace:
    """What the command gets when every setting is given."""
    make = shutil.which("make")
    assert make is not None
    words = [f"{name}={value}" for name, value in SETTINGS.items()]
    said = subprocess.run(
        [make, "-s", "-o", "setup", "HARNESS=echo", target, *words, "SIGNOFF=A <b@c>"],
        # Nothing of the make that may be running these tests.
        cwd=ROOT, env={"PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return parser(said).parse_args(said)


def test_there_are_targets() -> None:
    assert {"verify", "apply", "compat", "ci-tag"} <= set(targets())


@pytest.mark.parametrize("target", targets())
def test_settings_reach_the_command(target: str) -> None:
    given = vars(typed(target))
    for name, value in WANTED.items():
        if name in given and name not in OTHERWISE.get(target, ()):
            found = given[name]
            words = found if isinstance(found, list) else [found]
            assert [str(word) for word in words] == [value], name
