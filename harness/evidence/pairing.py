# SPDX-License-Identifier: Apache-2.0
"""Pair two accuracy runs question by question; what is not the same is refused."""

from __future__ import annotations

from harness.errors import InfrastructureError
from harness.models.base import Model
from harness.models.facts import AccuracyFacts, Answer, Outcome


class Pair(Model):
    """One question before and after."""

    base: Answer
    patched: Answer

    @property
    def flipped(self) -> bool:
        """Right on one side only."""
        return (self.base.outcome is Outcome.RIGHT) != (
            self.patched.outcome is Outcome.RIGHT
        )

    @property
    def harmed(self) -> bool:
        """Right before, not right after."""
        return self.flipped and self.base.outcome is Outcome.RIGHT

    @property
    def same_text(self) -> bool:
        """Whether the completions are equal, character by character."""
        return self.base.raw == self.patched.raw

    @property
    def logprob_difference(self) -> float | None:
        """Largest absolute difference of the tokens' log-probabilities.

        None when one side has none or the completions differ: from the first other
        token on, the numbers belong to different texts.
        """
        base, patched = self.base.token_logprobs, self.patched.token_logprobs
        if not base or len(base) != len(patched) or not self.same_text:
            return None
        return max(abs(a - b) for a, b in zip(base, patched, strict=True))


def pair(base: AccuracyFacts, patched: AccuracyFacts) -> tuple[Pair, ...]:
    """The pairs, in the order of the questions.

    Raises:
        InfrastructureError: The two runs did not ask the same questions in the same
            way; names the first difference.
    """
    for name in (
        "cell",
        "task",
        "task_version",
        "lm_eval",
        "source",
        "score",
        "fewshot",
        "max_gen_toks",
        "concurrency",
        "seed",
    ):
        before, after = getattr(base, name), getattr(patched, name)
        if before != after:
            raise _refused(base, f"{name} is {before} before and {after} after")
    before_keys = {answer.key for answer in base.answers}
    by_key = {answer.key: answer for answer in patched.answers}
    if missing := before_keys ^ by_key.keys():
        known = [*base.answers, *patched.answers]
        first = min(answer.doc_id for answer in known if answer.key in missing)
        raise _refused(
            base,
            f"document or prompt hashes differ, first at question {first} "
            f"({len(missing)} hashes without a partner)",
        )
    return tuple(
        Pair(base=answer, patched=by_key[answer.key]) for answer in base.answers
    )


def flips(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """The questions that are right on one side only, with both answers."""
    return tuple(pair for pair in pairs if pair.flipped)


def _refused(base: AccuracyFacts, what: str) -> InfrastructureError:
    return InfrastructureError(
        f"the two runs can't be compared: {what}", where=f"accuracy cell {base.cell}"
    )
