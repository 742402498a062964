# SPDX-License-Identifier: Apache-2.0
"""Write a tiny DeepSeek-V3-architecture model with one MTP layer and seeded weights.

Run in the measured environment: ``python -m harness.inside.tiny_model --out DIR
--seed N``. The same seed gives the same bytes. Weights are random, so the model
answers nothing: it exercises the code path, not the quality of the answers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from harness.inside.deepseek_v3 import (
    SETTINGS,
    Shapes,
    layer_shapes,
    mtp_layer_shapes,
)

END = "<|end|>"
"""End of text; also pads, and begins nothing (prompts carry no prefix token)."""

UNKNOWN = "<|unknown|>"
"""Stands for each byte outside ASCII. A token of its own for each such byte would
make random prompts of token ids change their length when written as text."""

COMMON_WORDS = (
    "the",
    "and",
    "has",
    "how",
    "many",
    "much",
    "does",
    "each",
    "day",
    "for",
    "Question",
    "Answer",
    "dollars",
    "she",
    "her",
    "his",
    "they",
    "that",
    "there",
    "with",
    "more",
    "than",
    "all",
    "are",
    "was",
    "were",
    "buys",
    "sells",
    "cost",
    "costs",
    "total",
    "money",
    "week",
    "hours",
    "minutes",
    "times",
    "number",
    "left",
    "from",
    "have",
    "will",
    "make",
    "took",
    "gave",
)
"""Words of arithmetic problems: merged to one token, so that prompts stay short."""


def configuration(
    *, vocabulary: int, end_token: int, positions: int = 4096
) -> dict[str, Any]:
    """``config.json`` of the tiny architecture: 1 dense, 2 MoE and 1 MTP layer."""
    return {
        **SETTINGS,
        "dtype": "float32",
        "hidden_size": 128,
        "moe_intermediate_size": 64,
        "num_hidden_layers": 3,
        "first_k_dense_replace": 1,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 16,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "rope_scaling": None,
        "max_position_embeddings": positions,
        "vocab_size": vocabulary,
        "bos_token_id": end_token,
        "eos_token_id": end_token,
        "pad_token_id": end_token,
        "use_cache": True,
    }


def weight_shapes(config: dict[str, Any]) -> Shapes:
    """Name and shape of every weight in the checkpoint, the MTP layer's included."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes: Shapes = {
        "model.embed_tokens.weight": (vocabulary, hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (vocabulary, hidden),
    }
    trunk = config["num_hidden_layers"]
    for layer in range(trunk + config["num_nextn_predict_layers"]):
        prefix = f"model.layers.{layer}."
        dense = layer < config["first_k_dense_replace"]
        block = layer_shapes(config, dense=dense)
        if layer >= trunk:
            block = mtp_layer_shapes(config)
        shapes |= {prefix + name: shape for name, shape in block.items()}
    return shapes


def weights(config: dict[str, Any], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Random fp32 weights; one generator per name, so that order does not matter.

    The MTP layer's embedding and head equal the target's, as in released checkpoints.
    """
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for index, (name, shape) in enumerate(sorted(weight_shapes(config).items())):
        noise = np.random.Generator(np.random.PCG64([seed, index]))
        values = noise.standard_normal(shape, dtype=np.float64)
        if "norm" in name:
            values = 1.0 + 0.1 * values
        elif name.endswith("e_score_correction_bias"):
            values = 0.1 * values
        elif "embed" not in name:
            values = values / np.sqrt(shape[-1])
        tensors[name] = values.astype(np.float32)
    for name in tensors:
        if name.endswith("shared_head.head.weight"):
            tensors[name] = tensors["lm_head.weight"].copy()
        elif name.endswith("embed_tokens.weight"):
            tensors[name] = tensors["model.embed_tokens.weight"].copy()
    return tensors


def tokenizer() -> Tokenizer:
    """A byte-level BPE of ASCII in which every digit is a token of its own."""
    space, byte_level = "\u0120", pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = [_one_byte(code, byte_level) for code in range(128)]
    tokens = dict.fromkeys([END, UNKNOWN, *alphabet])
    merges: list[tuple[str, str]] = []
    for word in COMMON_WORDS:
        parts = space + word
        for length in range(1, len(parts)):
            left, right = parts[:length], parts[length]
            if left + right not in tokens:
                tokens[left + right] = None
                merges.append((left, right))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token=UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([END, UNKNOWN])
    return made


def _one_byte(code: int, byte_level: pre_tokenizers.ByteLevel) -> str:
    """The character that byte-level BPE writes for one ASCII byte."""
    (written, _), *rest = byte_level.pre_tokenize_str(chr(code))
    if rest or len(written) != 1:
        raise ValueError(f"byte {code} is written {written!r}")
    return str(written)


def write(out: Path, seed: int) -> None:
    """Write the model's four files into ``out``, which must exist."""
    words = tokenizer()
    end_token = words.token_to_id(END)
    config = configuration(vocabulary=words.get_vocab_size(), end_token=end_token)
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
    save_file(weights(config, seed), out / "model.safetensors", {"format": "pt"})


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="an existing folder")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write(arguments.out, arguments.seed)


if __name__ == "__main__":
    main()
