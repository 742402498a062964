# SPDX-License-Identifier: Apache-2.0
"""A BPE of ASCII in which every digit, and the blank line, is a token of its own.

The blank line ends an answer and occurs nowhere else in a problem: a server told to
stop at that token stops without searching for a string. Bytes outside ASCII share one
token, so any text can be a prompt; were each a token of its own, random prompts of
token ids would change their length when written as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|end|>"
UNKNOWN = "<|unknown|>"
ANSWER_END = "\n\n"


def build(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn the merges from ``texts``; fewer merges than asked for is an error."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n+"), "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT, UNKNOWN],
        initial_alphabet=_ascii(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(
            f"the texts yield {tokenizer.get_vocab_size()} tokens, not {vocab_size}: "
            "give more varied texts"
        )
    return tokenizer


def _ascii() -> list[str]:
    """The characters in which byte-level BPE writes the ASCII bytes."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "".join(map(chr, range(128)))
    return [char for part, _ in level.pre_tokenize_str(text) for char in part]


def answer_end(tokenizer: Tokenizer) -> int:
    """The id of the token that ends an answer."""
    ids = tokenizer.encode(ANSWER_END).ids
    if len(ids) != 1:
        raise ValueError("the blank line is no token of its own in this tokenizer")
    return int(ids[0])


def save(tokenizer: Tokenizer, folder: Path, *, max_length: int) -> None:
    """Write the two files that transformers' AutoTokenizer reads."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "unk_token": UNKNOWN,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
    text = json.dumps(config, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text)
