# SPDX-License-Identifier: Apache-2.0
"""What a patch does to the memory that is left for the KV cache."""

from __future__ import annotations

from harness.evidence.gates.common import shown
from harness.models.facts import MemoryFacts
from harness.models.signal import Answer, Numbers, Signal

ROUNDING = 0.015
"""GiB: the log has two places, so two equal numbers may differ by one in the last."""


def memory_signals(
    base: MemoryFacts, patched: MemoryFacts, *, name: str
) -> list[Signal]:
    """Allocated bytes, gated where the server tells them, and KV-cache blocks, shown.

    The number of blocks is what vLLM's profiling run leaves, which differs by some
    percent from one start to the next; what loading the model allocates does not.
    """
    signals = [_blocks(base, patched, name)]
    if base.model_gib and patched.model_gib:
        signals.append(_allocated(base, patched, name))
    return signals


def _blocks(base: MemoryFacts, patched: MemoryFacts, name: str) -> Signal:
    before, after = base.kv_cache_blocks, patched.kv_cache_blocks
    return shown(
        f"{name}: KV-cache blocks",
        before,
        after,
        better=after >= before,
        unit="blocks",
        reason=f"{before} before and {after} after, of {base.kv_cache_block_tokens} "
        "tokens each",
    )


def _allocated(base: MemoryFacts, patched: MemoryFacts, name: str) -> Signal:
    before, after = max(base.model_gib), max(patched.model_gib)
    worse = after > before + ROUNDING
    return Signal(
        name=f"{name}: allocated by loading the model",
        answer=Answer.WORSE if worse else Answer.BETTER_OR_EQUAL,
        reason=f"{before:.2f} GiB in the largest worker before, {after:.2f} GiB after",
        numbers=Numbers(
            unit="GiB",
            base=before,
            patched=after,
            effect_unit="difference",
            effect=after - before,
            floor=ROUNDING,
            n=len(patched.model_gib),
            n_of="workers",
        ),
    )
