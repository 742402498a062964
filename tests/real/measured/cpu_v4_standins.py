# SPDX-License-Identifier: Apache-2.0
"""The stand-ins of cpu-v4 against plain references, in the measured environment.

``python cpu_v4_standins.py`` runs :data:`CASES` one after the other and prints a line
for each: its name and ``ok``, or what is wrong. It imports torch and Triton, not vLLM.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

os.environ["TRITON_INTERPRET"] = "1"

import torch
import torch.nn.functional as functional
import triton
import triton.language as tl

from harness.inside import hidden_buffer
from harness.inside.cpu_v4 import (
    attention,
    engine,
    experts,
    interpreter,
    interpreter_speed,
    model,
    rocm,
    tokens,
)


def noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# Triton's interpreter. Each kernel does one thing to narrow types.


@triton.jit
def _arithmetic(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, x + y)
    tl.store(out_ptr + N + at, x * y)
    tl.store(out_ptr + 2 * N + at, tl.where(x < y, x, y))
    tl.store(out_ptr + 3 * N + at, -x)


@triton.jit
def _product(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    square = at[:, None] * N + at[None, :]
    total = tl.dot(tl.load(x_ptr + square), tl.load(y_ptr + square))
    tl.store(out_ptr + square, total)


@triton.jit
def _convert(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(out_ptr.dtype.element_ty))


def bfloat16_arithmetic() -> None:
    n = 64
    x, y = noise(1, n).bfloat16(), noise(2, n).bfloat16()
    out = torch.empty(4, n, dtype=torch.bfloat16)
    _arithmetic[(1,)](x, y, out, N=n)
    wanted = torch.stack([x + y, x * y, torch.minimum(x, y), -x])
    assert torch.equal(out, wanted), (out - wanted).abs().max()


def dot() -> None:
    n = 32
    for kind in (torch.bfloat16, torch.float8_e4m3fn):
        x, y = noise(3, n, n).to(kind), noise(4, n, n).to(kind)
        out = torch.empty(n, n)
        _product[(1,)](x, y, out, N=n)
        wanted = x.double() @ y.double()
        torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-5)


def conversions() -> None:
    """To bfloat16 and fp8: to nearest, ties to even, subnormal numbers too."""
    n = 1024
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 17.0, 19.0, 0.0, -0.0, 2.0**-9])
    values = torch.cat([noise(5, 500), noise(6, 500) * 1e-2])
    values = torch.cat([values, ties, torch.zeros(n)])[:n]
    for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        out = torch.empty(n, dtype=kind)
        _convert[(1,)](values, out, N=n)
        assert torch.equal(out.float(), values.to(kind).float()), kind
        back = torch.empty(n)
        _convert[(1,)](out, back, N=n)
        assert torch.equal(back, out.float()), kind


PLAIN = {kind: kind.__init__ for kind in (tl.block_type, tl.tensor)}
"""Before the interpreter is changed."""


def types_made_once() -> None:
    """The second of a kind has what the first has, and kinds are told apart."""
    quick = {
        tl.block_type: interpreter_speed.block_types(PLAIN[tl.block_type]),
        tl.tensor: interpreter_speed.tensors(PLAIN[tl.tensor]),
    }

    def attributes(kind: type, ways: dict[type, Callable[..., None]], *words: object):  # type: ignore[no-untyped-def]
        made = object.__new__(kind)
        ways[kind](made, *words)
        return sorted((name, str(value)) for name, value in vars(made).items()), made

    far = tl.pointer_type(tl.float32, address_space=3)
    elements = [tl.float32, tl.bfloat16, tl.pointer_type(tl.float32), far]
    shapes = ([4], [2, 4], [8], [tl.constexpr(2)])
    for element, shape in [(e, s) for e in elements for s in shapes] * 2:
        wanted, block = attributes(tl.block_type, PLAIN, element, shape)
        found, same = attributes(tl.block_type, quick, element, shape)
        assert found == wanted, (found, wanted)
        assert same == block
        for kind in (block, element):
            wanted, _ = attributes(tl.tensor, PLAIN, 7, kind)
            found, _ = attributes(tl.tensor, quick, 7, kind)
            assert found == wanted, (found, wanted)


def shapes_compared() -> None:
    quick = interpreter_speed.equal(tl.tuple.__eq__)
    one, two, other = (tl.tuple([tl.constexpr(n), 4]) for n in (2, 2, 3))
    assert quick(one, one) == quick(one, two) == tl.constexpr(True)
    assert not quick(one, other)
    assert quick(one, [2, 4])
    assert not quick(one, tl.tuple([tl.constexpr(2)]))
    assert not quick(one, tl.tuple([tl.float32, 4]))


def kernels_not_traced() -> None:
    """Lines around a kernel's call are seen, also those after it; none within."""
    seen: list[tuple[str, int]] = []

    def trace(frame, event, argument):  # type: ignore[no-untyped-def]
        if frame.f_code in (around.__code__, within.__code__) and event == "line":
            name = frame.f_code.co_name
            seen.append((name, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace

    def within() -> int:
        return 1

    def around() -> int:
        found = kernel()
        return found + 1

    kernel = interpreter_speed.untraced(within)
    sys.settrace(trace)
    try:
        around()
    finally:
        sys.settrace(None)
    assert seen == [("around", 1), ("around", 2)], seen


def saturation() -> None:
    values = torch.tensor([1e9, -1e9, 449.0, 448.0])
    out = torch.empty(4, dtype=torch.float8_e4m3fn)
    _convert[(1,)](values, out, N=4)
    assert out.float().tolist() == [448.0, -448.0, 448.0, 448.0], out.float()


def every_bit_pattern() -> None:
    """All bfloat16 and fp8 numbers survive the way to float32 and back."""
    for kind, bits in ((tl.bfloat16, 16), (tl.float8e4nv, 8), (tl.float8e5, 8)):
        dtype = torch.int32 if bits == 16 else torch.int16
        holder = "uint16" if bits == 16 else "uint8"
        patterns = torch.arange(1 << bits, dtype=dtype).numpy().astype(holder)
        wide = interpreter.widen(patterns, kind)
        finite = ~(torch.from_numpy(wide).isnan().numpy())
        again = interpreter.narrow(wide, kind)
        assert (again[finite] == patterns[finite]).all(), kind


# Attention.


def top_k() -> None:
    logits = noise(7, 5, 12)
    logits[2, 3] = logits[2, 5]  # a tie: the first column wins
    starts, ends = torch.tensor([0, 2, 1, 4, 6]), torch.tensor([12, 9, 8, 4, 8])
    found = torch.empty(5, 4, dtype=torch.int32)
    attention.top_k_per_row_prefill(logits, starts, ends, found, 5, 12, 1, 4)
    for row, (start, end) in enumerate(
        zip(starts.tolist(), ends.tolist(), strict=True)
    ):
        columns = range(start, end)
        best = sorted(columns, key=lambda c: (-logits[row, c].item(), c))[:4]
        wanted = [column - start for column in best]
        wanted += [-1] * (4 - len(wanted))
        assert found[row].tolist() == wanted, (row, found[row].tolist(), wanted)


def top_k_of_decodes() -> None:
    """Two tokens per request: the first sees one column less than the second."""
    ends = attention.decode_ends(torch.tensor([3, 1]), 2, 4)
    assert ends.tolist() == [2, 3, 0, 1], ends
    lengths = torch.tensor([[2, 3], [0, 1]])
    assert attention.decode_ends(lengths, 2, 4).tolist() == [2, 3, 0, 1]


def expanded() -> None:
    """The type is kept, zeros replaced, and what no draft belongs to left alone."""
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    for values, first in (
        (torch.tensor([0.7, 3, 0]), 0.7),
        (torch.tensor([7, 3, 0]), 7),
    ):
        found = torch.full((6,), -1).to(values.dtype)
        engine.expand(found, values, ends, 0, 1, MAX_NUM_TOKENS=8)
        assert torch.equal(found, torch.tensor([first] * 2 + [1] * 3 + [-1]).to(found))


def qnorm_rope() -> None:
    """Complex numbers are the reference: turned by an angle, the rest untouched."""
    q, kv = noise(21, 3, 2, 12).bfloat16(), noise(22, 3, 12).bfloat16()
    angles, positions = noise(23, 5, 2), torch.tensor([4, 0, 2])
    cos_sin = torch.cat((angles.cos(), angles.sin()), -1)
    found_q, found_kv = attention.qnorm_rope(q, kv, positions, cos_sin, 1e-6)

    def turned(row: torch.Tensor, position: int) -> torch.Tensor:
        pairs = torch.view_as_complex(row[8:].reshape(2, 2).contiguous())
        unit = torch.polar(torch.ones(2), angles[position])
        return torch.cat((row[:8], torch.view_as_real(pairs * unit).flatten()))

    for token, position in enumerate(positions.tolist()):
        wanted = turned(kv[token].float(), position)
        assert torch.allclose(found_kv[token].float(), wanted, atol=0.02)
        assert torch.equal(found_kv[token, :8], kv[token, :8])
        for head in range(2):
            row = q[token, head].float()
            wanted = turned(row / (row.norm() / 12**0.5), position)
            assert torch.allclose(found_q[token, head].float(), wanted, atol=0.02)


def mm_out_dtype() -> None:
    x, y = noise(8, 3, 64).bfloat16(), noise(9, 64, 5).bfloat16()
    product = attention.mm(torch.mm)
    assert torch.equal(product(x, y, out_dtype=torch.float32), x.float() @ y.float())
    assert torch.equal(product(x, y), torch.mm(x, y))


def indexer_token_by_token() -> None:
    """Several tokens per request are what each of them is alone."""
    seen: list[tuple[int, ...]] = []

    def alone(q, cache, weights, lengths, tables, limit):  # type: ignore[no-untyped-def]
        assert q.shape[1] == 1
        seen.append(tuple(lengths.tolist()))
        return torch.stack(
            [
                w.sum() * row.sum() + 100 * length + table[0]
                for w, row, length, table in zip(
                    weights, q, lengths, tables, strict=True
                )
            ]
        ).unsqueeze(1)

    q, weights = noise(10, 2, 3, 4, 8), noise(11, 6, 4)
    tables = torch.tensor([[1, 2], [3, 4]])
    wrapped = rocm.one_by_one(alone)
    both = wrapped(q, None, weights, torch.tensor([9, 2]), tables, 16)
    assert seen == [(7, 8, 9, 0, 1, 2)], seen
    for request, token in ((0, 0), (0, 2), (1, 1)):
        row = 3 * request + token
        single = weights[row].sum() * q[request, token].sum()
        wanted = single + 100 * seen[0][row] + tables[request, 0]
        torch.testing.assert_close(both[row, 0], wanted)


def on_device() -> None:
    def asserts(q: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        assert not q.is_cpu
        assert other.is_cpu
        return q + other

    result = rocm.on_device(asserts, ("q",))(q=torch.ones(2), other=torch.ones(2))
    assert type(result) is torch.Tensor
    assert result.tolist() == [2.0, 2.0]


# Experts.


def router() -> None:
    logits, bias = noise(12, 6, 16), noise(13, 16)
    weights, ids = experts.choose(
        logits, 4, renormalize=True, bias=bias, tokens=None, table=None, scale=1.5
    )
    for row in range(6):
        scores = functional.softplus(logits[row]).sqrt()
        best = (scores + bias).topk(4).indices
        assert ids[row].tolist() == best.tolist()
        wanted = 1.5 * scores[best] / scores[best].sum()
        torch.testing.assert_close(weights[row], wanted)


def hash_router() -> None:
    logits, table = noise(14, 3, 8), torch.tensor([[0, 1], [2, 3], [7, 4]])
    tokens = torch.tensor([2, 0, 1], dtype=torch.int32)
    weights, ids = experts.choose(
        logits, 2, renormalize=False, bias=None, tokens=tokens, table=table, scale=1.0
    )
    assert ids.tolist() == [[7, 4], [0, 1], [2, 3]]
    scores = functional.softplus(logits).sqrt()
    torch.testing.assert_close(weights[0], scores[0, [7, 4]])


def dense_experts() -> None:
    tokens, hidden, inner, count, k, limit = 7, 16, 8, 5, 3, 0.5
    x, w13, w2 = noise(15, tokens, hidden), noise(16, count, 2 * inner, hidden), 0
    w2 = noise(17, count, hidden, inner)
    ids = noise(18, tokens, count).argsort(-1)[:, :k]
    weights = noise(19, tokens, k).abs()
    found = experts.experts(x, w13, w2, weights, ids, limit)
    for row in range(tokens):
        wanted = torch.zeros(hidden)
        for place in range(k):
            expert = ids[row, place]
            gate, up = w13[expert, :inner] @ x[row], w13[expert, inner:] @ x[row]
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
            out = w2[expert] @ (gate * torch.sigmoid(gate) * up)
            wanted += weights[row, place] * out
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-4)


# What is noted of the buffer.


class _Head(torch.nn.Module):
    def forward(self, residual: torch.Tensor) -> torch.Tensor:
        return residual.mean(1)


class _Target(torch.nn.Module):
    """A target of two streams; ``fill`` does to the buffer what a tree does."""

    def __init__(self, fill: Callable[..., None] | None) -> None:
        super().__init__()
        self.fill = fill
        self.model = torch.nn.Module()
        self.model.hc_head_op = _Head()
        self.buffer = None if fill is None else torch.zeros(8, 6)
        self.before = torch.zeros(8, 6)

    def get_mtp_target_hidden_states(self) -> torch.Tensor | None:
        return self.buffer

    def forward(self, residual: torch.Tensor) -> torch.Tensor:
        if self.fill is not None:
            self.fill(self, residual)
        self.before[: len(residual)] = residual.flatten(1)
        out: torch.Tensor = self.model.hc_head_op(residual)
        return out


def _right(target: _Target, residual: torch.Tensor) -> None:
    target.buffer[: len(residual)] = residual.flatten(1)


def _never(target: _Target, residual: torch.Tensor) -> None: ...


def _late(target: _Target, residual: torch.Tensor) -> None:
    target.buffer[: len(residual)] = target.before[: len(residual)]


def _after_head(target: _Target, residual: torch.Tensor) -> None:
    target.buffer[: len(residual)] = residual.mean(1).repeat(1, 2)


def buffer_rows() -> None:
    cases = ((_right, 5), (_never, 0), (_late, 0), (_after_head, 0), (None, 0))
    for fill, wanted in cases:
        target = _Target(fill)
        watch = hidden_buffer.Watch(target)
        for seed, rows in ((20, 3), (21, 2)):
            target(noise(seed, rows, 2, 3))
        assert (watch.forwards, watch.rows, watch.equal) == (2, 5, wanted), fill
        said = watch.describe()["buffer"]
        size = {"shape": [8, 6], "dtype": "float32", "bytes": 192}
        assert said == (None if fill is None else size), said


# The made model.


def made_weights() -> None:
    """The same bytes every time; target and draft know each token's successor."""
    config = model.configuration(vocabulary=130, end_token=0, ratios=(4, 128), topk=64)
    one, two, other = (model.weights(config, seed) for seed in (1, 1, 2))
    assert one.keys() == model.weight_shapes(config).keys()
    for name, shape in model.weight_shapes(config).items():
        assert tuple(one[name].shape) == shape, name
        assert torch.equal(one[name], two[name]), name
    assert not torch.equal(one["head.weight"], other["head.weight"])
    draft = "mtp.0."
    embedding, head = one["embed.weight"].float(), one["head.weight"].float()
    follows, shown = model.successors(130, 1), torch.tensor(tokens.printable())
    assert set(follows.tolist()) <= set(shown.tolist())
    found = (embedding @ head.T).argmax(-1)
    assert torch.equal(found[shown], follows[shown])
    ahead = embedding @ one[f"{draft}h_proj.weight"].float().T
    found = (ahead @ head.T).argmax(-1)
    assert torch.equal(found[shown], follows[follows][shown])
    for name in ("head.weight", "norm.weight", "hc_head_fn"):
        assert torch.equal(one[draft + name], one[name]), name
    assert torch.equal(one[f"{draft}emb.tok_emb.weight"], one["embed.weight"])


def words() -> None:
    """Every ASCII byte is one token, and comes back."""
    made = tokens.tokenizer()
    text = bytes(range(128)).decode()
    assert len(made.encode(text).ids) == 128
    assert made.decode(made.encode(text).ids) == text


CASES = {
    "bfloat16 arithmetic": bfloat16_arithmetic,
    "dot": dot,
    "conversions": conversions,
    "types made once": types_made_once,
    "shapes compared": shapes_compared,
    "kernels not traced": kernels_not_traced,
    "saturation": saturation,
    "every bit pattern": every_bit_pattern,
    "top-k": top_k,
    "top-k of decodes": top_k_of_decodes,
    "expanded": expanded,
    "qnorm rope": qnorm_rope,
    "mm out_dtype": mm_out_dtype,
    "indexer token by token": indexer_token_by_token,
    "on device": on_device,
    "router": router,
    "hash router": hash_router,
    "dense experts": dense_experts,
    "buffer rows": buffer_rows,
    "made weights": made_weights,
    "words": words,
}


def main() -> None:
    if "--plain-interpreter" not in sys.argv:
        interpreter.install()
        interpreter_speed.install()
    for name, case in CASES.items():
        try:
            case()
        except Exception:
            print(f"{name}: {traceback.format_exc()}", flush=True)
        else:
            print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main()
