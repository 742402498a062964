# SPDX-License-Identifier: Apache-2.0
"""The stand-ins of cpu-sp and the draft counter, in the measured environment.

``python cpu_sp_ranks.py`` runs :data:`CASES` one after the other and prints a line for
each: its name and ``ok``, or what is wrong. The references use neither vLLM nor a
second process.
"""

from __future__ import annotations

import functools
import json
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torch.nn.functional as functional

from harness.inside import collectives, cpu_sp, standins

HIDDEN, WIDTH, EXPERTS, TOP = 64, 32, 8, 2
SIZES = ([3, 0, 5, 1], [0, 0, 0, 0], [2, 2, 2, 2], [0, 0, 0, 7])


def noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole(seed: int, *shape: int) -> torch.Tensor:
    """Small whole numbers: sums of them are exact in every order and data type."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, shape, generator=generator)


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


# The dense mixture of experts, and vLLM's own layer on some of its experts.


def weights() -> tuple[torch.Tensor, torch.Tensor]:
    """Of all experts: gate and up [E, 2 x WIDTH, HIDDEN], down [E, HIDDEN, WIDTH]."""
    up = noise(1, EXPERTS, 2 * WIDTH, HIDDEN) / 8
    return up, noise(2, EXPERTS, HIDDEN, WIDTH) / 6


def dense(x: torch.Tensor, logits: torch.Tensor, top: int) -> torch.Tensor:
    """Softmax over the best ``top`` experts of each token, one by one."""
    up, down = weights()
    output = torch.zeros_like(x)
    for token in range(x.shape[0]):
        values, ids = logits[token].topk(top)
        for weight, expert in zip(values.softmax(0), ids, strict=True):
            gate, other = (up[expert] @ x[token]).chunk(2)
            result = down[expert] @ (functional.silu(gate) * other)
            output[token] += weight * result
    return output


def layer_of(experts: list[int] | None) -> torch.nn.Module:
    """vLLM's layer, as far as the CPU experts look at it, with these experts."""
    up, down = weights()
    layer = torch.nn.Module()
    chosen = list(range(EXPERTS)) if experts is None else experts
    layer.w13_weight = torch.nn.Parameter(up[chosen].clone(), requires_grad=False)
    layer.w2_weight = torch.nn.Parameter(down[chosen].clone(), requires_grad=False)
    layer.expert_map = None
    if experts is not None:
        layer.expert_map = torch.full((EXPERTS,), -1, dtype=torch.int32)
        layer.expert_map[experts] = torch.arange(len(experts), dtype=torch.int32)
    return layer


def run_layer(
    layer: torch.nn.Module,
    x: torch.Tensor,
    logits: torch.Tensor,
    top: int,
    *,
    torch_only: bool = False,
) -> torch.Tensor:
    """As UnquantizedFusedMoEMethod calls it: the map is a positional argument.

    Args:
        torch_only: Take the way without the compiled kernel, which vLLM takes anyway
            where the machine has no AVX-512.
    """
    from vllm.model_executor.layers.fused_moe.cpu_fused_moe import CPUFusedMOE

    class Torch(CPUFusedMOE):
        def check_grouped_gemm(self, layer: torch.nn.Module) -> tuple[bool, str]:
            return False, "none"

    experts = (Torch if torch_only else CPUFusedMOE)(layer)
    return experts(
        layer, x, False, top, logits, True, None, None, EXPERTS, layer.expert_map
    )


def expert_map() -> None:
    """Ranks' parts add up to the dense result, for every placement and kernel."""
    placements = {
        "linear": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "round robin": [[0, 4], [1, 5], [2, 6], [3, 7]],
        "uneven": [[0, 1, 2, 3, 4], [5], [6, 7]],
    }
    x, logits = noise(3, 13, HIDDEN), noise(4, 13, EXPERTS)
    # No token of the first five goes to experts 0 and 1.
    logits[:5, :2] = -100.0
    for torch_only in (False, True):
        run = functools.partial(run_layer, torch_only=torch_only)
        for top in (1, 2, 6):
            wanted = dense(x, logits, top)
            alone = run(layer_of(None), x.clone(), logits, top)
            close(alone, wanted)
            for ranks in placements.values():
                parts = [run(layer_of(held), x.clone(), logits, top) for held in ranks]
                close(torch.stack(parts).sum(0), wanted)
        few = run(layer_of([0, 1]), x[:5].clone(), logits[:5], 2)
        assert torch.equal(few, torch.zeros(5, HIDDEN)), "nothing is routed here"
        none = run(layer_of([0]), x[:0].clone(), logits[:0], 2)
        assert none.shape == (0, HIDDEN)


# Collectives, in real ranks on gloo with vLLM's own communicator.


def communicator() -> object:
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

    group = dist.group.WORLD
    return CpuCommunicator(group, torch.device("cpu"), group, "ep:0")


def gather_rank(rank: int) -> None:
    group = communicator()
    for sizes in SIZES:
        for dtype in (torch.float32, torch.bfloat16, torch.int32):
            parts = [whole(r, n, 6).to(dtype) for r, n in enumerate(sizes)]
            kept = parts[rank].clone()
            found = group.all_gatherv(kept, 0, sizes)
            assert torch.equal(found, torch.cat(parts)), (sizes, dtype)
            assert torch.equal(kept, parts[rank]), "the input was changed"
            sideways = group.all_gatherv(parts[rank].t(), 1, sizes)
            assert torch.equal(sideways, torch.cat(parts).t()), (sizes, dtype)
        pair = [whole(rank, sizes[rank], 6), whole(9 + rank, sizes[rank], 2)]
        first, second = group.all_gatherv(pair, dim=0, sizes=sizes)
        assert first.shape == (sum(sizes), 6)
        wanted = torch.cat([whole(9 + r, n, 2) for r, n in enumerate(sizes)])
        assert torch.equal(second, wanted)
    equal = group.all_gatherv(whole(rank, 2, 3))
    assert torch.equal(equal, torch.cat([whole(r, 2, 3) for r in range(4)]))
    refuses(lambda: group.all_gatherv(whole(0, 2, 3), 0, [1, 1, 1, 1]))


def scatter_rank(rank: int) -> None:
    group = communicator()
    for sizes in SIZES:
        for dtype in (torch.float32, torch.bfloat16, torch.int32):
            parts = [whole(r, sum(sizes), 6).to(dtype) for r in range(4)]
            start = sum(sizes[:rank])
            total = torch.stack(parts).sum(0).to(dtype)
            wanted = total[start : start + sizes[rank]]
            kept = parts[rank].clone()
            found = group.reduce_scatterv(kept, dim=0, sizes=sizes)
            assert torch.equal(found, wanted), (sizes, dtype)
            assert torch.equal(kept, parts[rank]), "the input was changed"
            sideways = group.reduce_scatterv(parts[rank].t(), dim=-1, sizes=sizes)
            assert torch.equal(sideways, wanted.t()), (sizes, dtype)
    total = sum(whole(r, 8, 3) for r in range(4))
    equal = group.reduce_scatterv(whole(rank, 8, 3), dim=0)
    assert torch.equal(equal, total[2 * rank : 2 * rank + 2])
    refuses(lambda: group.reduce_scatterv(whole(0, 3, 3), 0, [1, 1, 1, 1]))


def layer_rank(rank: int) -> None:
    """Dispatch, local experts, combine: each rank gets its own rows' dense result."""
    group = communicator()
    held = [2 * rank, 2 * rank + 1]
    for sizes in SIZES:
        rows = noise(20 + rank, sizes[rank], HIDDEN)
        logits = noise(40 + rank, sizes[rank], EXPERTS)
        every, routed = group.all_gatherv([rows, logits], dim=0, sizes=sizes)
        part = run_layer(layer_of(held), every, routed, TOP)
        found = group.reduce_scatterv(part, dim=0, sizes=sizes)
        close(found, dense(rows, logits, TOP))


def counter_rank(rank: int) -> None:
    """The draft counter sees its model's forward and nothing else, on vLLM's groups."""
    from vllm.distributed.parallel_state import GroupCoordinator

    group = GroupCoordinator([[0, 1, 2, 3]], rank, "gloo", True, group_name="ep")
    sizes = [3, 0, 5, 1]
    model = torch.nn.Module()

    def forward(input_ids: object, positions: torch.Tensor, width: int) -> torch.Tensor:
        own = whole(rank, sizes[rank], width)
        group.all_reduce(whole(rank, 2, 3).float())
        return group.all_gatherv([own, own[:, :1]], dim=0, sizes=sizes)[0]

    model.forward = forward
    ledger = collectives.Ledger({})
    collectives._watch_model(model, ledger)
    for width in (6, 6, 4):
        found = model.forward(None, torch.arange(width + 1), width)
        wanted = torch.cat([whole(r, n, width) for r, n in enumerate(sizes)])
        assert torch.equal(found, wanted), "the counter changed the result"
        group.all_reduce(whole(rank, 2, 3).float())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.json"
        ledger.write(path)
        wide = json.loads(path.read_text())["forwards"][1]
    assert (wide["tokens"], wide["count"]) == (7, 2), wide
    reduce, gather = wide["calls"]
    assert reduce["group"] == "ep"
    assert (reduce["op"], reduce["bytes"]) == ("all_reduce", 2 * 3 * 4)
    assert (gather["op"], gather["dtype"]) == ("all_gatherv", ["int64", "int64"])
    assert gather["shape"] == [[sizes[rank], 6], [sizes[rank], 1]]
    assert gather["bytes"] == sizes[rank] * 7 * 8


def refuses(call: Callable[[], object]) -> None:
    """All ranks are refused before anything is sent, so nobody is left waiting."""
    try:
        call()
    except ValueError:
        return
    raise AssertionError("wrong sizes were taken")


def in_ranks(work: Callable[[int], None], ranks: int = 4) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    multiprocessing.start_processes(
        _rank, (work, ranks, port), nprocs=ranks, start_method="fork"
    )


def _rank(rank: int, work: Callable[[int], None], ranks: int, port: int) -> None:
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", address, world_size=ranks, rank=rank)
    try:
        work(rank)
    finally:
        dist.destroy_process_group()


CASES: dict[str, Callable[[], None]] = {
    "expert map": expert_map,
    "all_gatherv": lambda: in_ranks(gather_rank),
    "reduce_scatterv": lambda: in_ranks(scatter_rank),
    "layer": lambda: in_ranks(layer_rank),
    "counter": lambda: in_ranks(counter_rank),
}


def main() -> int:
    torch.set_num_threads(1)
    cpu_sp.main()
    # Imported once, here: each rank is a fork.
    import vllm.distributed.device_communicators.cpu_communicator
    import vllm.model_executor.layers.fused_moe.cpu_fused_moe  # noqa: F401
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    assert set(standins.ACTIVE) == set(cpu_sp.STAND_INS), standins.ACTIVE
    failed = 0
    for name, case in CASES.items():
        try:
            case()
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        else:
            print(f"{name}: ok", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
