# SPDX-License-Identifier: Apache-2.0
"""What a profile's servers are asked: questions to score, prompts to draft on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.measure.questions import Questions, few_shot_prompts, find
from harness.models.profile import Profile
from harness.paths import Project


@dataclass(frozen=True)
class Asked:
    """Everything that is sent to servers but the benchmark's random tokens.

    Attributes:
        questions: By the name of their data in the profile.
        prompts: By the names of server setup and acceptance cell.
    """

    questions: dict[str, Questions]
    prompts: dict[tuple[str, str], tuple[str, ...]]


def gather(
    project: Project, profile: Profile, *, quick: bool, say: Callable[[str], None]
) -> Asked:
    """Find every cell's data, as many as a full or a quick run asks.

    Raises:
        HarnessError: Some of it is nowhere to be had.
    """
    questions: dict[str, Questions] = {}
    prompts: dict[tuple[str, str], tuple[str, ...]] = {}
    for setup in profile.servers:
        named = [cell.data for cell in setup.accuracy]
        for data in [*named, *(cell.data for cell in setup.acceptance)]:
            if data not in questions:
                questions[data] = find(project, data)
                source = questions[data].source
                say(f"questions: {source.name} ({source.origin.value})")
        for drafted in setup.acceptance:
            prompts[setup.name, drafted.name] = few_shot_prompts(
                questions[drafted.data],
                drafted.prompts.of(quick=quick),
                fewshot=drafted.fewshot,
            )
    return Asked(questions, prompts)
