# SPDX-License-Identifier: Apache-2.0
"""The page of results/reference-model/."""

from __future__ import annotations

from harness.models.reference_results import (
    Acceptance,
    Agreement,
    ReferenceResults,
    ServerResult,
)


def render(results: ReferenceResults) -> str:
    """The page as markdown; every number comes from ``results``."""
    return "\n".join(
        [
            "# The reference model, measured",
            "",
            f"`{results.command}` on vLLM {results.tree} without the series, finished "
            f"{results.finished_at}. The numbers are those of `summary.json`; the "
            "profile is `configs/profiles/reference.yaml`, the model "
            f"`configs/reference-model` (sha256 over its files `{results.model[:16]}`"
            "...).",
            "",
            "## Accuracy on held-out problems (lm-eval)",
            "",
            "| server | draft tokens | examples | questions | right | outcomes |",
            "| --- | --- | --- | --- | --- | --- |",
            *[line for server in results.servers for line in _accuracy(server)],
            "",
            "## Acceptance",
            "",
            "Share of the drafts whose token at position 1, 2, ... was accepted; "
            "answers end at a stop token of the engine.",
            "",
            "| server | text | prompts | tokens | drafts | by position |",
            "| --- | --- | --- | --- | --- | --- |",
            *[
                _acceptance(server.name, drafted)
                for server in results.servers
                for drafted in server.acceptance
            ],
            "",
            "## Speculation on and off",
            "",
            *[_agreement(found) for found in results.agreement],
            "",
            "## The call of lm-eval",
            "",
            "Folders of the machine and the server's address are left out.",
            "",
            "```",
            " ".join(results.servers[0].accuracy[0].arguments),
            "```",
            "",
            "## Versions",
            "",
            *[f"- {name}: {version}" for name, version in results.versions.items()],
            "",
        ]
    )


def _accuracy(server: ServerResult) -> list[str]:
    rows = []
    for found in server.accuracy:
        outcomes = ", ".join(f"{n} {name}" for name, n in found.outcomes.items() if n)
        rows.append(
            f"| {server.name} | {server.draft_tokens} | {found.fewshot} | "
            f"{found.questions} | {found.accuracy:.3f} ({found.score}) | {outcomes} |"
        )
    return rows


def _acceptance(name: str, found: Acceptance) -> str:
    rates = " / ".join(f"{rate:.4f}" for rate in found.rates)
    return (
        f"| {name} | {found.cell} | {found.prompts} | {found.output_tokens} | "
        f"{found.counts.drafts} | {rates} |"
    )


def _agreement(found: Agreement) -> str:
    one, other = found.servers
    return (
        f"- {one} and {other}: {found.same} of {found.answers} answers are the same; "
        "the log-probabilities of their tokens differ by at most "
        f"{found.largest_logprob_difference:.1e}. In {found.longer} of them one server "
        "reported more tokens, past the string that ends the answer: drafts are "
        "accepted several at once."
    )
