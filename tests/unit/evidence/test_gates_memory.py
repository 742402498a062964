# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from harness.evidence.gates.memory import memory_signals
from harness.models.facts import MemoryFacts
from harness.models.signal import Answer


def facts(blocks: int, *loaded: float) -> MemoryFacts:
    return MemoryFacts(
        processes=1,
        rss_bytes=1,
        pss_bytes=None,
        kv_cache_blocks=blocks,
        kv_cache_block_tokens=256,
        kv_cache_log=None,
        model_gib=loaded,
    )


def test_less_allocated_and_more_blocks_is_better() -> None:
    blocks, loaded = memory_signals(facts(100, 9.0, 9.44), facts(110, 9.0), name="m")
    assert blocks.answer is Answer.BETTER_OR_EQUAL
    assert not blocks.gated
    assert blocks.numbers is not None
    assert blocks.numbers.effect == 1.1
    assert loaded.answer is Answer.BETTER_OR_EQUAL
    assert loaded.reason == "9.44 GiB in the largest worker before, 9.00 GiB after"


def test_a_gib_more_is_worse_and_gated() -> None:
    blocks, loaded = memory_signals(facts(100, 9.0), facts(90, 9.0, 10.0), name="m")
    assert (loaded.answer, loaded.gated) == (Answer.WORSE, True)
    # What the profiling run leaves differs from start to start.
    assert (blocks.answer, blocks.gated) == (Answer.CANT_TELL, False)


def test_the_last_digit_of_the_log_is_no_harm() -> None:
    _, loaded = memory_signals(facts(100, 9.0), facts(100, 9.01), name="m")
    assert loaded.answer is Answer.BETTER_OR_EQUAL


def test_a_cpu_tells_no_allocated_bytes() -> None:
    (blocks,) = memory_signals(facts(100), facts(100), name="m")
    assert blocks.name == "m: KV-cache blocks"
