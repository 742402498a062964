# SPDX-License-Identifier: Apache-2.0
"""``harness ci-notify``."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path

from harness.commands._common import context, emit, say
from harness.compat.merging import news, read_results
from harness.errors import ExitCode, InfrastructureError
from harness.models.base import load
from harness.models.ci import News
from harness.models.compat import Compatibility

SUMMARY = "open or update an issue for each new CONFLICT, MERGED or MERGED-MODIFIED"
_TIMEOUT = 60
"""Seconds for one call of gh."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", type=Path, metavar="DIR")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what there is, touch no issue"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    result, _ = read_results(arguments.results)
    file = context(arguments).project.results / "compat.json"
    known = load(file, Compatibility) if file.exists() else None
    found = news(result, known)
    if not arguments.dry_run and found:
        _tell(found)
    report = {"news": [item.model_dump() for item in found]}
    emit(arguments, report, [item.title for item in found] or ["nothing new"])
    return ExitCode.PASS


def _tell(found: list[News]) -> None:
    listed = json.loads(
        _gh("issue", "list", "--state", "open", "--limit", "500",
            "--search", "compat: in:title", "--json", "number,title")
    )  # fmt: skip
    numbers = {issue["title"]: str(issue["number"]) for issue in listed}
    for item in found:
        if item.title in numbers and _is_told(numbers[item.title], item):
            say(f"#{numbers[item.title]} names {item.tag} already")
        elif item.title in numbers:
            _gh("issue", "comment", numbers[item.title], "--body", item.body)
            say(f"updated #{numbers[item.title]}: {item.title}")
        else:
            url = _gh("issue", "create", "--title", item.title, "--body", item.body)
            numbers[item.title] = url.strip().rsplit("/", 1)[-1]
            say(f"opened {url.strip()}: {item.title}")


def _is_told(number: str, item: News) -> bool:
    """Whether the issue has this release: schedules come again before anyone acts."""
    text = _gh("issue", "view", number, "--json", "body,comments")
    return f"`{item.tag}`" in text


def _gh(*arguments: str) -> str:
    if shutil.which("gh") is None:
        raise InfrastructureError(
            "gh is not installed", fix="--dry-run says what there is without it"
        )
    try:
        done = subprocess.run(
            ["gh", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError("gh gave no answer", where=arguments[1]) from error
    if done.returncode != 0:
        first = done.stderr.strip().splitlines()[:1] or ["no reason given"]
        raise InfrastructureError(f"gh failed: {first[0]}", where=arguments[1])
    return done.stdout
