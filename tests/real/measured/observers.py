# SPDX-License-Identifier: Apache-2.0
"""Run by the measured Python: the observers on operators whose counts are known."""

from __future__ import annotations

import torch

from harness.inside.probes import deepseek_v4_standins, mtp_layer_v32
from harness.inside.probes.digests import describe
from harness.inside.probes.observers import Memory


def new_storages_and_views() -> None:
    with Memory() as memory:
        x = torch.empty(4, 8)
        y = x.view(8, 4)[:2]
        y.add_(1)
        z = x + 1
    assert (memory.allocations, memory.allocated_bytes) == (2, 256), vars(memory)
    assert z.shape == (4, 8)


def memory_that_nobody_touches() -> None:
    with Memory() as memory:
        torch.empty(1 << 28, dtype=torch.uint8)
    assert memory.allocated_bytes == 1 << 28


def what_is_dropped_is_not_in_the_peak() -> None:
    with Memory() as memory:
        for _ in range(3):
            x = torch.empty(100, dtype=torch.uint8)
            del x
    assert (memory.allocated_bytes, memory.peak_bytes) == (300, 100)


def what_a_view_holds_is_in_the_peak() -> None:
    with Memory() as memory:
        kept = torch.empty(100, dtype=torch.uint8)[:1]
        other = torch.empty(10, dtype=torch.uint8)
    assert memory.peak_bytes == 110
    assert len(kept) + len(other) == 11


def a_collective_leaves_no_peak() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    x = torch.ones(4)
    with Memory() as memory:
        x.clone()
        assert memory.peak_bytes == 16
        torch.distributed.all_reduce(x)
        x.clone()
    torch.distributed.destroy_process_group()
    assert memory.peak_bytes is None
    assert memory.allocations == 2


def copies() -> None:
    target = torch.zeros(10, 4, dtype=torch.bfloat16)
    with Memory() as memory:
        target[:3].copy_(torch.ones(3, 4, dtype=torch.bfloat16))
    assert (memory.copies, memory.copied_bytes) == (1, 24)


def digests() -> None:
    x = torch.arange(6, dtype=torch.float32).view(2, 3)
    assert describe(x)["sha256"] == describe(x.t().contiguous().t())["sha256"]
    assert describe(x) != describe(x.t().contiguous().t())  # strides
    changed = x.clone()
    changed[1, 2] = torch.nextafter(changed[1, 2], torch.tensor(9.0))
    assert describe(x)["sha256"] != describe(changed)["sha256"]
    minus = describe(torch.tensor([-0.0]))["sha256"]
    assert minus != describe(torch.tensor([0.0]))["sha256"]
    assert set(describe(None)) == set(describe(x))


def formulas_of_the_stand_ins() -> None:
    torch.manual_seed(0)
    x, fn = torch.randn(3, 4, 8), torch.randn(4, 32)
    scale, base = torch.tensor([0.7]), torch.randn(4)
    with deepseek_v4_standins.watch_head() as seen:
        got = deepseek_v4_standins.hc_head(x, fn, scale, base, 1e-6, 1e-3)
    for token in range(3):
        flat = x[token].flatten()
        flat = flat / torch.sqrt(flat.square().mean() + 1e-6)
        gates = torch.sigmoid(fn @ flat * scale + base) + 1e-3
        torch.testing.assert_close(got[token], gates @ x[token])
    assert len(seen) == 1
    assert seen[0] is x

    embeds, hidden = torch.randn(2, 8), torch.randn(2, 8)
    weights = torch.randn(8), torch.randn(8)
    both = mtp_layer_v32.fused_eh_norm(
        torch.tensor([0, 5]), embeds, hidden, *weights, 1e-6
    )
    norm = torch.nn.functional.rms_norm
    torch.testing.assert_close(both[0, :8], torch.zeros(8))
    torch.testing.assert_close(both[1, :8], norm(embeds[1], (8,), weights[0], 1e-6))
    torch.testing.assert_close(both[:, 8:], norm(hidden, (8,), weights[1], 1e-6))


CASES = (
    new_storages_and_views,
    memory_that_nobody_touches,
    what_is_dropped_is_not_in_the_peak,
    what_a_view_holds_is_in_the_peak,
    a_collective_leaves_no_peak,
    copies,
    digests,
    formulas_of_the_stand_ins,
)

if __name__ == "__main__":
    for case in CASES:
        case()
        print(f"{case.__name__}: ok", flush=True)
