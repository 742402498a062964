# SPDX-License-Identifier: Apache-2.0
"""Write a small DeepSeek-V4-architecture model with one MTP layer and made weights.

Run in the measured environment: ``python -m harness.inside.cpu_v4.model --out DIR
--seed N``. The same seed gives the same bytes.

Nobody trained it, so its answers mean nothing. The weights are made so that its greedy
text varies, and so that its draft is often right, but only if it reads the target's
hidden states of the same tokens. Every token has a successor, and the head finds the
successor of the token whose embedding it is given. The target's layers add enough to
the embedding to choose another token now and then. The draft's ``h_proj`` takes each
embedding to its successor's, and everything else that the draft adds is small: so it
guesses the successor of the successor, from the hidden states alone.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from harness.inside.cpu_v4.tokens import END, UNKNOWN, printable, tokenizer

Shapes = dict[str, tuple[int, ...]]

ROPE_SCALING = {
    "type": "yarn",
    "rope_type": "yarn",
    "factor": 4,
    "original_max_position_embeddings": 256,
    "beta_fast": 32,
    "beta_slow": 1,
}


def configuration(
    *, vocabulary: int, end_token: int, ratios: tuple[int, ...], topk: int
) -> dict[str, Any]:
    """``config.json``: as narrow as the layers and their kernels allow.

    Args:
        ratios: For each layer how many tokens its cache keeps as one: 0 (only the
            sliding window), 4 or 128.
        topk: Compressed tokens that the indexer picks.
    """
    return {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "dtype": "bfloat16",
        "vocab_size": vocabulary,
        "hidden_size": 128,
        "num_hidden_layers": len(ratios),
        "compress_ratios": list(ratios),
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "q_lora_rank": 64,
        "o_lora_rank": 64,
        "o_groups": 2,
        # The kernels know no other head than 448 + 64.
        "head_dim": 512,
        "qk_rope_head_dim": 64,
        # Every slot costs, taken or not; a context of 64 tokens fills this one.
        "sliding_window": 64,
        "index_topk": topk,
        "index_n_heads": 4,
        "index_head_dim": 128,
        "rms_norm_eps": 1e-6,
        "hc_mult": 4,
        "hc_eps": 1e-6,
        "hc_sinkhorn_iters": 4,
        "n_routed_experts": 64,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 64,
        "n_shared_experts": 1,
        "swiglu_limit": 10.0,
        "norm_topk_prob": True,
        "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc",
        "routed_scaling_factor": 1.5,
        "num_hash_layers": 1,
        "hidden_act": "silu",
        "num_nextn_predict_layers": 1,
        "max_position_embeddings": 1024,
        "rope_theta": 10000.0,
        "compress_rope_theta": 40000.0,
        "rope_scaling": ROPE_SCALING,
        "tie_word_embeddings": False,
        "bos_token_id": end_token,
        "eos_token_id": end_token,
        "pad_token_id": end_token,
    }


def weight_shapes(config: dict[str, Any]) -> Shapes:
    """Name and shape of every weight, named as in released checkpoints."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes: Shapes = {
        "embed.weight": (vocabulary, hidden),
        "norm.weight": (hidden,),
        "head.weight": (vocabulary, hidden),
        **_head_shapes(config, ""),
    }
    for number, ratio in enumerate(config["compress_ratios"]):
        hashed = number < config["num_hash_layers"]
        layer = _layer_shapes(config, ratio, hashed=hashed)
        shapes |= {f"layers.{number}.{name}": shape for name, shape in layer.items()}
    draft = {
        **_layer_shapes(config, 0, hashed=False),
        **_head_shapes(config, ""),
        "e_proj.weight": (hidden, hidden),
        "h_proj.weight": (hidden, hidden),
        "enorm.weight": (hidden,),
        "hnorm.weight": (hidden,),
        "norm.weight": (hidden,),
        "emb.tok_emb.weight": (vocabulary, hidden),
        "head.weight": (vocabulary, hidden),
    }
    return shapes | {f"mtp.0.{name}": shape for name, shape in draft.items()}


def _head_shapes(config: dict[str, Any], prefix: str) -> Shapes:
    streams = config["hc_mult"]
    return {
        f"{prefix}hc_head_fn": (streams, streams * config["hidden_size"]),
        f"{prefix}hc_head_base": (streams,),
        f"{prefix}hc_head_scale": (1,),
    }


def _layer_shapes(config: dict[str, Any], ratio: int, *, hashed: bool) -> Shapes:
    hidden = config["hidden_size"]
    shapes: Shapes = {"attn_norm.weight": (hidden,), "ffn_norm.weight": (hidden,)}
    streams = config["hc_mult"]
    mixes = (2 + streams) * streams
    for part in ("attn", "ffn"):
        shapes[f"hc_{part}_fn"] = (mixes, streams * hidden)
        shapes[f"hc_{part}_base"] = (mixes,)
        shapes[f"hc_{part}_scale"] = (3,)
    attention = _attention_shapes(config, ratio)
    shapes |= {f"attn.{name}": shape for name, shape in attention.items()}
    experts = _expert_shapes(config, hashed=hashed)
    return shapes | {f"ffn.{name}": shape for name, shape in experts.items()}


def _attention_shapes(config: dict[str, Any], ratio: int) -> Shapes:
    hidden, head, heads = (
        config["hidden_size"],
        config["head_dim"],
        config["num_attention_heads"],
    )
    q_rank, o_rank, groups = (
        config["q_lora_rank"],
        config["o_lora_rank"],
        config["o_groups"],
    )
    shapes: Shapes = {
        "attn_sink": (heads,),
        "wq_a.weight": (q_rank, hidden),
        "wkv.weight": (head, hidden),
        "q_norm.weight": (q_rank,),
        "kv_norm.weight": (head,),
        "wq_b.weight": (heads * head, q_rank),
        "wo_a.weight": (groups * o_rank, heads * head // groups),
        "wo_b.weight": (hidden, groups * o_rank),
    }
    if ratio > 1:
        shapes |= _compressor_shapes("compressor.", hidden, head, ratio)
    if ratio == 4:
        index_heads, index_head = config["index_n_heads"], config["index_head_dim"]
        shapes |= {
            "indexer.wq_b.weight": (index_heads * index_head, q_rank),
            "indexer.weights_proj.weight": (index_heads, hidden),
        }
        shapes |= _compressor_shapes("indexer.compressor.", hidden, index_head, ratio)
    return shapes


def _compressor_shapes(prefix: str, hidden: int, head: int, ratio: int) -> Shapes:
    # With a ratio of 4 neighbouring windows overlap, each with channels of its own.
    width = head * (2 if ratio == 4 else 1)
    return {
        f"{prefix}ape": (ratio, width),
        f"{prefix}wkv.weight": (width, hidden),
        f"{prefix}wgate.weight": (width, hidden),
        f"{prefix}norm.weight": (head,),
    }


def _expert_shapes(config: dict[str, Any], *, hashed: bool) -> Shapes:
    hidden, inner = config["hidden_size"], config["moe_intermediate_size"]
    experts = config["n_routed_experts"]
    shapes: Shapes = {"gate.weight": (experts, hidden)}
    if hashed:
        shapes["gate.tid2eid"] = (config["vocab_size"], config["num_experts_per_tok"])
    else:
        shapes["gate.bias"] = (experts,)
    shared = ["shared_experts"] if config["n_shared_experts"] else []
    for expert in [*(f"experts.{n}" for n in range(experts)), *shared]:
        shapes[f"{expert}.w1.weight"] = (inner, hidden)
        shapes[f"{expert}.w2.weight"] = (hidden, inner)
        shapes[f"{expert}.w3.weight"] = (inner, hidden)
    return shapes


_FLOAT32 = ("hc_", "attn_sink", "ape", "gate.bias")
"""Parts of the names of weights that the model keeps in float32."""


def weights(config: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    """Every weight, from a generator of its own: the order does not matter."""
    tensors = {
        name: _made(name, shape, config, seed)
        for name, shape in weight_shapes(config).items()
    }
    embedding = tensors["embed.weight"]
    follows = successors(config["vocab_size"], seed)
    tensors["head.weight"] = head(embedding, follows)
    tensors["mtp.0.h_proj.weight"] = step(embedding, follows)
    tensors["mtp.0.emb.tok_emb.weight"] = embedding.clone()
    for name in ("head.weight", "norm.weight", *_head_shapes(config, "")):
        tensors[f"mtp.0.{name}"] = tensors[name].clone()
    return tensors


def _generator(name: str, seed: int) -> torch.Generator:
    # torch's generator for the CPU takes 32 bits of a seed, no more.
    key = zlib.crc32(f"{seed}:{name}".encode())
    return torch.Generator().manual_seed(key)


def successors(vocabulary: int, seed: int) -> torch.Tensor:
    """The token [vocabulary] that follows each.

    The printable ones go round in cycles of :data:`CYCLE`, so that a text repeats
    itself for a while: something for ngram to look up.
    """
    shown = torch.tensor(printable())
    generator = _generator("successors", seed)
    shown = shown[torch.randperm(len(shown), generator=generator)]
    follows = shown[torch.randint(len(shown), (vocabulary,), generator=generator)]
    for cycle in shown.split(CYCLE):
        follows[cycle] = cycle.roll(-1)
    return follows


def head(embedding: torch.Tensor, follows: torch.Tensor) -> torch.Tensor:
    """Each token's row: what the embeddings that it follows have in common.

    Args:
        embedding: [vocabulary, hidden].
        follows: [vocabulary].
    """
    rows = torch.zeros_like(embedding, dtype=torch.float32)
    counts = follows.bincount(minlength=len(rows)).clamp(min=1)
    rows.index_add_(0, follows, embedding.float())
    return (HEAD_SCALE * rows / counts.unsqueeze(1)).to(embedding.dtype)


def step(embedding: torch.Tensor, follows: torch.Tensor) -> torch.Tensor:
    """The matrix [hidden, hidden] that takes each embedding to its successor's, as
    nearly as least squares can."""
    wide = embedding.double()
    taken = torch.linalg.lstsq(wide, wide[follows]).solution
    return taken.T.to(embedding.dtype)


def _made(
    name: str, shape: tuple[int, ...], config: dict[str, Any], seed: int
) -> torch.Tensor:
    generator = _generator(name, seed)
    if name.endswith("tid2eid"):
        order = torch.rand((shape[0], config["n_routed_experts"]), generator=generator)
        return order.argsort(-1)[:, : shape[1]].to(torch.int32)
    values = torch.randn(shape, generator=generator)
    values = _scaled(name, values)
    kind = torch.float32 if any(part in name for part in _FLOAT32) else torch.bfloat16
    return values.to(kind)


TARGET_SHARE = 0.3
"""How much the target's layers add to the embedding."""

DRAFT_SHARE = 0.02
"""How much the draft's own layer and its view of the last token add."""

CYCLE = 7
"""Tokens after which a text repeats itself, unless a layer intervenes."""

HEAD_SCALE = 1 / 16
"""Leaves other tokens than the likeliest to those who sample."""


def _scaled(name: str, values: torch.Tensor) -> torch.Tensor:
    draft = name.startswith("mtp.")
    if name in ("mtp.0.enorm.weight", "mtp.0.hnorm.weight"):
        return torch.ones_like(values)
    if "norm" in name:
        return 1.0 + 0.1 * values
    if name.endswith(("hc_attn_scale", "hc_ffn_scale", "hc_head_scale")):
        return torch.full_like(values, 0.5)
    if name.endswith(("_base", "attn_sink", "ape", "gate.bias")):
        return 0.1 * values
    if name in ("embed.weight", "mtp.0.emb.tok_emb.weight"):
        return values
    values = values / values.shape[-1] ** 0.5
    if name.endswith((".wo_b.weight", ".w2.weight", ".e_proj.weight")):
        return values * (DRAFT_SHARE if draft else TARGET_SHARE)
    return values


def write(out: Path, seed: int, ratios: tuple[int, ...], topk: int) -> None:
    """Write the model's four files into ``out``, which must exist."""
    words = tokenizer()
    end_token = words.token_to_id(END)
    config = configuration(
        vocabulary=words.get_vocab_size(), end_token=end_token, ratios=ratios, topk=topk
    )
    words.save(str(out / "tokenizer.json"))
    _write_json(
        out / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": END,
            "eos_token": END,
            "pad_token": END,
            "unk_token": UNKNOWN,
            "model_max_length": config["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
        },
    )
    _write_json(out / "config.json", config)
    tensors = {name: t.contiguous() for name, t in weights(config, seed).items()}
    save_file(tensors, out / "model.safetensors", {"format": "pt"})


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="an existing folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ratios", default="4,128", help="one per layer")
    parser.add_argument("--topk", type=int, default=16, help="of the indexer")
    arguments = parser.parse_args()
    ratios = tuple(int(ratio) for ratio in arguments.ratios.split(","))
    write(arguments.out, arguments.seed, ratios, arguments.topk)


if __name__ == "__main__":
    main()
