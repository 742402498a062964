# SPDX-License-Identifier: Apache-2.0
"""Submission copies: the series with a person's sign-off, and the pull request text.

vLLM wants a human owner for every change (its README and AGENTS.md), so nothing here
invents one: without a sign-off there is no submission copy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.files import write_atomic
from harness.git import Git
from harness.models.pin import Identity, Upstream
from harness.models.series import PatchEntry
from harness.series.export import canonical_commit, export
from harness.series.mail import Message, read_message
from harness.series.stack import stack

_SIGNOFF = re.compile(r"^([^<>]+\S) <([^<>@\s]+@[^<>@\s]+\.[^<>@\s]+)>$")
_INVENTED = (".invalid", ".example", ".test", "example.com", "localhost")

_TEXT = """\
<!-- Title: {title} -->

## Purpose

{purpose}

## Test Plan

{plan}

## Test Result

{result}

## Why this is not a duplicate

Run these on the day of submission and paste what they show; if one finds this change,
stop.

```
{searches}
```

Known neighbours: {neighbours}

## AI assistance

This change was prepared with AI assistance. Tick what is true before you submit:

- [ ] {name} has reviewed every changed line and can defend it.
- [ ] {name} has run the tests above.
- [ ] The commit carries the `Co-authored-by:` trailer of the tool that was used.
"""


@dataclass(frozen=True)
class Submission:
    """The files written for one patch."""

    number: str
    patch: Path
    text: Path


def parse_signoff(value: str) -> Identity:
    """The person in ``Name <mail>``.

    Raises:
        UsageError: Missing, malformed, or a made-up address.
    """
    found = _SIGNOFF.match(value.strip())
    if found is None:
        raise UsageError(
            f"{value!r} is no sign-off" if value else "a submission needs a person",
            where="SIGNOFF",
            fix='make submit SIGNOFF="Name <mail>"',
        )
    if found[2].endswith(_INVENTED):
        raise UsageError(
            f"{found[2]} is no real address",
            where="SIGNOFF",
            fix="vLLM wants a human who owns the change",
        )
    return Identity(name=found[1], email=found[2])


def write_submissions(
    git: Git,
    base: str,
    entries: Sequence[PatchEntry],
    upstream: Upstream,
    patches: Path,
    signoff: Identity,
    into: Path,
) -> tuple[Submission, ...]:
    """Write a signed-off copy of each patch and its pull request text.

    Args:
        git: A repository that holds ``base``.
        entries: The whole series, in order.
        patches: Where the patch files are.
        signoff: Becomes author, committer and sign-off.
        into: The folder for the copies.
    """
    written = []
    parent = base
    for item in stack(git, base, entries, patches):
        message = read_message(git, patches / item.entry.file)
        trailer = f"Signed-off-by: {signoff.name} <{signoff.email}>"
        text = f"{message.text}\n{trailer}\n"
        parent = canonical_commit(git, item.commit, parent, signoff, text)
        patch = into / item.entry.file
        write_atomic(patch, export(git, parent, item.entry, upstream))
        body = patch.with_suffix(".md")
        write_atomic(body, pull_request_text(message, item.entry, signoff))
        written.append(Submission(item.entry.number, patch, body))
    return tuple(written)


def pull_request_text(message: Message, entry: PatchEntry, signoff: Identity) -> str:
    """The pull request's text in the form of vLLM's template."""
    sections = _sections(message.body)
    names = sorted({Path(t.path).parts[-2] for t in entry.targets})
    keywords = " ".join([*names, *_words(message.subject)])
    searches = [f'gh pr list --state open --search "{keywords}"']
    for target in entry.targets:
        searches.append(f'gh pr list --state open --search "{target.path} in:body"')
    for link in entry.upstream.links:
        number = link.rstrip("/").rsplit("/", 1)[-1]
        searches.append(f"gh issue view {number} --comments")
        searches.append(f'gh pr list --state open --search "{number} in:body"')
    return _TEXT.format(
        title=message.subject,
        purpose=sections["Purpose"],
        plan=sections["Test Plan"],
        result=sections["Test Result"],
        searches="\n".join(searches),
        neighbours=", ".join(entry.upstream.links) or "none",
        name=signoff.name,
    )


def _sections(body: str) -> dict[str, str]:
    parts = re.split(r"^(Purpose|Test Plan|Test Result): ", body, flags=re.MULTILINE)
    sections = {
        name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    missing = {"Purpose", "Test Plan", "Test Result"} - sections.keys()
    if missing:
        raise UsageError(f"the message has no section {', '.join(sorted(missing))}")
    return sections


def _words(subject: str) -> list[str]:
    title = re.sub(r"\[[^\]]*\]", " ", subject)
    return [word for word in re.findall(r"[A-Za-z0-9]+", title) if len(word) > 3][:6]
