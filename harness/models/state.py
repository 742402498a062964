# SPDX-License-Identifier: Apache-2.0
"""What ``make apply`` left in build/vllm (kept inside its ``.git`` folder)."""

from __future__ import annotations

from harness.models.base import Model
from harness.models.pin import BlobId, Tag


class CheckoutState(Model):
    """The record of one finished apply."""

    tag: Tag
    source: str
    """The SOURCE that the tree came from."""
    base: BlobId
    """The pinned commit; the archive's root commit when it came from the index."""
    head: BlobId
    """The last patch's commit."""
    commits: dict[str, BlobId]
    """Commit of each patch, by number."""
