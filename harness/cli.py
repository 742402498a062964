# SPDX-License-Identifier: Apache-2.0
"""The command line: parse and dispatch, nothing else."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
import tempfile
import traceback
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn, Protocol, cast

import harness.commands
from harness.errors import ExitCode, HarnessError, UsageError
from harness.paths import default_root
from harness.processes import sigterm_interrupts


class Command(Protocol):
    """What a module in ``harness.commands`` offers."""

    SUMMARY: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> ExitCode: ...


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, fix=f"see {self.prog} --help")


def parser(named: Collection[str] = ()) -> argparse.ArgumentParser:
    """The parser with one subcommand per module in ``harness.commands``.

    Args:
        named: The words of a command line. When one of them is a command, only that
            one is imported: the others' libraries would cost a second.
    """
    top = _Parser(
        prog="harness",
        description="Carries a patch series for vLLM and measures what it does.",
        epilog="Exit codes: 0 pass, 1 a patch regressed or broke its claim, "
        "2 inconclusive, 3 infrastructure failure, 4 bad usage or input.",
    )
    top.add_argument("--json", action="store_true", help="report as JSON on stdout")
    top.add_argument(
        "--root",
        type=Path,
        default=default_root(),
        help="the folder with configs/ and patches/ (default: this checkout)",
    )
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Parser
    )
    for module in _modules(named):
        command = cast(Command, importlib.import_module(f"harness.commands.{module}"))
        name = module.replace("_", "-")
        sub = commands.add_parser(
            name, help=command.SUMMARY, description=command.SUMMARY
        )
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every failure becomes one line and a documented code."""
    as_json = "--json" in (sys.argv if argv is None else argv)
    try:
        words = sys.argv[1:] if argv is None else argv
        arguments = parser(words).parse_args(words)
        with sigterm_interrupts():
            return int(arguments.run(arguments))
    except HarnessError as error:
        for line in error.detail:
            print(f"  | {line}", file=sys.stderr)
        return _fail(error.line(), error.exit_code, as_json)
    except KeyboardInterrupt:
        return _fail("interrupted", ExitCode.INFRASTRUCTURE, as_json)
    except BrokenPipeError:
        # The reader (head, a closed pager) is gone: not worth a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.INFRASTRUCTURE)
    except Exception as error:
        line = f"unexpected {type(error).__name__}: {error}; details in {_log()}"
        return _fail(line, ExitCode.INFRASTRUCTURE, as_json)


def _fail(line: str, code: ExitCode, as_json: bool) -> int:
    print(f"harness: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": line, "exit_code": int(code)}))
    return int(code)


def _log() -> Path:
    handle, name = tempfile.mkstemp(prefix="harness-", suffix=".log")
    with os.fdopen(handle, "w") as stream:
        traceback.print_exc(file=stream)
    return Path(name)


def _modules(named: Collection[str]) -> list[str]:
    found = pkgutil.iter_modules(harness.commands.__path__)
    names = sorted(m.name for m in found if not m.name.startswith("_"))
    return [n for n in names if n.replace("_", "-") in named] or names
