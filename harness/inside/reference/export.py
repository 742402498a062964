# SPDX-License-Identifier: Apache-2.0
"""Write the trained twin as the folder that vLLM and transformers load."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer

from harness.inside.reference import tokenizer as tokenizers
from harness.inside.reference.model import Twin


def export(model: Twin, tokenizer: Tokenizer, folder: Path) -> None:
    """Write weights, configuration and tokenizer into ``folder``.

    The MTP layer's embedding and head are the trunk's; vLLM replaces them by those, but
    its loader wants every parameter named in the file, so they are written twice.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().clone().contiguous()
        for name, tensor in model.state_dict().items()
    }
    last = f"model.layers.{model.spec.num_hidden_layers}"
    tensors[f"{last}.embed_tokens.weight"] = tensors[
        "model.embed_tokens.weight"
    ].clone()
    tensors[f"{last}.shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    end_of_text = tokenizer.token_to_id(tokenizers.END_OF_TEXT)
    _write(folder / "config.json", model.spec.config(end_of_text=end_of_text))
    generation = {
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "do_sample": False,
    }
    _write(folder / "generation_config.json", generation)
    length = model.spec.max_position_embeddings
    tokenizers.save(tokenizer, folder, max_length=length)


def _write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
