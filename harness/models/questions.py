# SPDX-License-Identifier: Apache-2.0
"""Where questions come from: ``configs/questions.yaml``."""

from __future__ import annotations

from pydantic import PositiveFloat

from harness.models.base import Model
from harness.models.pin import Sha256

FILES = ("test.jsonl", "train.jsonl")


class QuestionFiles(Model):
    """A set of questions in gsm8k's format: one object with question and answer a
    line."""

    name: str
    """How results name it."""
    sha256: dict[str, Sha256]
    """Of test.jsonl and train.jsonl."""


class HubDataset(Model):
    """The same rows on the hub."""

    path: str
    config: str
    url: str
    """Asked for to see whether the hub can be reached."""
    timeout: PositiveFloat
    """Seconds for that."""


class QuestionConfig(Model):
    """The public set, where it is on the hub, and our own last resort."""

    gsm8k: QuestionFiles
    hub: HubDataset
    own: QuestionFiles
    own_folder: str
    """Of ``own``, relative to configs/."""
