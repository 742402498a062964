# SPDX-License-Identifier: Apache-2.0
"""The one place that calls git, and where its habits are known.

The outcome of a call must not depend on whose machine it runs on. So the user's and
the system's configuration are out of sight, hooks, signing, rerere and whitespace
fixing are off, and every ``GIT_*`` variable is gone: run from a hook, git sets
``GIT_DIR`` and ``GIT_INDEX_FILE``, and these win over ``-C``. Calls that talk to a
remote are the exception (``transport=True``): credentials and proxies live in that
configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import git as gitpython

from harness.errors import InfrastructureError

# GitPython hands every child a copy of os.environ, so the variables have to leave
# the process itself. What the user had is kept for transport.
_INHERITED = {k: os.environ.pop(k) for k in list(os.environ) if k.startswith("GIT_")}
_REPOSITORY_VARIABLES = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
        "GIT_CEILING_DIRECTORIES",
        "GIT_QUARANTINE_PATH",
    }
)

_ISOLATED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
    "TZ": "UTC",
    # $XDG_CONFIG_HOME/git/{attributes,ignore} are read even without a configuration.
    "XDG_CONFIG_HOME": os.devnull,
}
_SETTINGS = {
    "advice.detachedHead": "false",
    "apply.whitespace": "nowarn",
    "commit.gpgSign": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "true",
    "core.safecrlf": "false",
    "diff.interHunkContext": "0",
    "gc.auto": "0",
    "init.defaultBranch": "main",
    "maintenance.auto": "false",
    "rerere.enabled": "false",
    "submodule.recurse": "false",
    "tag.gpgSign": "false",
}


class GitError(InfrastructureError):
    """A git command failed that should not have."""


@dataclass(frozen=True)
class Completed:
    """What a git command left behind."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Standard output as text, without the final line end."""
        return self.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@dataclass(frozen=True)
class Git:
    """git in one folder, deaf to the machine it runs on.

    Args:
        folder: Where git runs (``-C``).
        settings: More ``-c`` settings, over the fixed ones.
    """

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(
        self,
        *arguments: str,
        check: bool = True,
        stdin: BinaryIO | None = None,
        env: Mapping[str, str] | None = None,
        transport: bool = False,
    ) -> Completed:
        """Run ``git *arguments``.

        Args:
            check: Raise on a non-zero exit instead of returning it.
            stdin: A file to read standard input from (a real one, with a descriptor).
            env: More environment, over the isolated one.
            transport: Keep the user's configuration, for talking to a remote.

        Raises:
            GitError: git is missing, or failed with ``check``.
        """
        command = ["git", *self._options(), *arguments]
        variables = dict(_ISOLATED)
        if transport:
            kept = {k: v for k, v in _INHERITED.items() if _is_transport(k)}
            variables = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **kept}
        try:
            result = gitpython.Git(str(self.folder)).execute(
                command,
                istream=stdin,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                env={**variables, **(env or {})},
            )
        except gitpython.GitCommandNotFound as error:
            raise GitError(
                "git can't be run", where=str(self.folder), fix="install git"
            ) from error
        status, out, err = cast("tuple[int, bytes | str, bytes | str]", result)
        stderr = err if isinstance(err, str) else bytes(err).decode(errors="replace")
        done = Completed(int(status), _as_bytes(out), stderr.strip())
        if check and done.status != 0:
            raise GitError(
                f"git {arguments[0]} failed: {_first_line(done)}",
                where=str(self.folder),
            )
        return done

    def text(self, *arguments: str) -> str:
        """Standard output of a command that must succeed."""
        return self.run(*arguments).text

    def _options(self) -> list[str]:
        settings = {
            **_SETTINGS,
            # The command scope is a protected one: containers run as another user.
            "safe.directory": str(self.folder.resolve()),
            **self.settings,
        }
        return [part for k, v in settings.items() for part in ("-c", f"{k}={v}")]


def _is_transport(name: str) -> bool:
    return name not in _REPOSITORY_VARIABLES and not name.startswith("GIT_TRACE")


def _as_bytes(out: object) -> bytes:
    return out if isinstance(out, bytes) else str(out).encode("utf-8")


def _first_line(done: Completed) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [f"exit status {done.status}"])[0]
