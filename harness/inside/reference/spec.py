# SPDX-License-Identifier: Apache-2.0
"""The shape of the reference model, and the config.json that tells vLLM of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spec:
    """Sizes of a DeepSeek-V3 with one MTP layer; names as in its configuration."""

    vocab_size: int = 400
    hidden_size: int = 128
    intermediate_size: int = 256
    moe_intermediate_size: int = 64
    num_hidden_layers: int = 3
    first_k_dense_replace: int = 1
    num_attention_heads: int = 4
    q_lora_rank: int = 64
    kv_lora_rank: int = 64
    qk_nope_head_dim: int = 16
    qk_rope_head_dim: int = 16
    v_head_dim: int = 32
    n_routed_experts: int = 8
    n_shared_experts: int = 1
    num_experts_per_tok: int = 2
    n_group: int = 4
    topk_group: int = 2
    routed_scaling_factor: float = 2.5
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 8192
    """Far beyond the training windows, so that five examples of the real gsm8k in
    this small vocabulary are still a legal prompt."""

    @property
    def qk_head_dim(self) -> int:
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    def config(self, *, end_of_text: int) -> dict[str, Any]:
        """The content of config.json (transformers' DeepseekV3Config)."""
        sizes = {key: getattr(self, key) for key in self.__dataclass_fields__}
        theta = sizes.pop("rope_theta")
        return {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            **sizes,
            "num_key_value_heads": self.num_attention_heads,
            "num_nextn_predict_layers": 1,
            "moe_layer_freq": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "norm_topk_prob": True,
            "hidden_act": "silu",
            "attention_bias": False,
            "rope_theta": theta,
            "rope_interleave": True,
            "tie_word_embeddings": False,
            "bos_token_id": end_of_text,
            "eos_token_id": end_of_text,
            "pad_token_id": end_of_text,
            "dtype": "float32",
        }
