# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of the small DeepSeek V4: ASCII bytes, every one a token."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

END = "<|end|>"
"""End of text; also pads, and begins nothing (prompts carry no prefix token)."""

UNKNOWN = "<|unknown|>"
"""Stands for each byte outside ASCII."""


_BYTES = 128
_SPECIAL = (END, UNKNOWN)


def printable() -> list[int]:
    """Ids of the tokens of printable characters, space among them."""
    return [len(_SPECIAL) + code for code in range(_BYTES) if chr(code).isprintable()]


def tokenizer() -> Tokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = [byte_level.pre_tokenize_str(chr(code))[0][0] for code in range(_BYTES)]
    tokens = [*_SPECIAL, *alphabet]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    made.pre_tokenizer = byte_level
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(_SPECIAL))
    return made
