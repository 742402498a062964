# SPDX-License-Identifier: Apache-2.0
"""``harness ci-pending``."""

from __future__ import annotations

import argparse
import json

from packaging.version import Version

from harness.commands._common import context, say
from harness.commands.ci_tag import checked_tag
from harness.commands.compat import SINCE, open_releases
from harness.compat.trees import version_of
from harness.errors import ExitCode
from harness.models.base import load
from harness.models.compat import Compatibility

SUMMARY = "releases that results/compat.json does not have, as a JSON list"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tag", help="this release instead, whether judged before or not"
    )
    parser.add_argument("--since", default=SINCE, help=f"not older (default {SINCE})")
    parser.add_argument("--source", help="index (default), git, or a clone")


def run(arguments: argparse.Namespace) -> ExitCode:
    if arguments.tag:
        print(json.dumps([checked_tag(arguments.tag)]))
        return ExitCode.PASS
    since = Version(checked_tag(arguments.since).removeprefix("v"))
    arguments.tag = None
    here = context(arguments)
    file = here.project.results / "compat.json"
    judged = set()
    if file.exists():
        judged = {r.tag for r in load(file, Compatibility).releases if not r.failure}
    releases = open_releases(arguments.source, here.upstream, prereleases=False)
    try:
        tags = releases.tags()
    finally:
        releases.close()
    pending = [
        tag
        for tag in tags
        if tag not in judged and (version_of(tag) or Version("0")) >= since
    ]
    say(f"{len(pending)} of {len(tags)} releases to judge")
    print(json.dumps(pending))
    return ExitCode.PASS
