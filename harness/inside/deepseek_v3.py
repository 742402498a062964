# SPDX-License-Identifier: Apache-2.0
"""The DeepSeek-V3 architecture, as far as all small models of it here agree.

Sizes that a use needs in its own way are left to it; shapes follow from the whole.
"""

from __future__ import annotations

from typing import Any

Shapes = dict[str, tuple[int, ...]]

SETTINGS: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "intermediate_size": 256,
    "num_nextn_predict_layers": 1,
    "moe_layer_freq": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "v_head_dim": 32,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 4,
    "topk_group": 2,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
"""Of ``config.json``."""


def layer_shapes(config: dict[str, Any], *, dense: bool) -> Shapes:
    """Name, within the layer, and shape of every weight of a decoder layer."""
    return _attention_shapes(config) | _mlp_shapes(config, dense=dense)


def mtp_layer_shapes(config: dict[str, Any]) -> Shapes:
    """As :func:`layer_shapes`, of a layer that predicts the token after the next."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    return layer_shapes(config, dense=False) | {
        "enorm.weight": (hidden,),
        "hnorm.weight": (hidden,),
        "eh_proj.weight": (hidden, 2 * hidden),
        "embed_tokens.weight": (vocabulary, hidden),
        "shared_head.norm.weight": (hidden,),
        "shared_head.head.weight": (vocabulary, hidden),
    }


def _attention_shapes(config: dict[str, Any]) -> Shapes:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    nope, rope = config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    value, q_rank = config["v_head_dim"], config["q_lora_rank"]
    kv_rank = config["kv_lora_rank"]
    return {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_a_proj.weight": (q_rank, hidden),
        "self_attn.q_a_layernorm.weight": (q_rank,),
        "self_attn.q_b_proj.weight": (heads * (nope + rope), q_rank),
        "self_attn.kv_a_proj_with_mqa.weight": (kv_rank + rope, hidden),
        "self_attn.kv_a_layernorm.weight": (kv_rank,),
        "self_attn.kv_b_proj.weight": (heads * (nope + value), kv_rank),
        "self_attn.o_proj.weight": (hidden, heads * value),
    }


def _mlp_shapes(config: dict[str, Any], *, dense: bool) -> Shapes:
    hidden = config["hidden_size"]
    if dense:
        return _gated(hidden, config["intermediate_size"], "mlp.")
    width, experts = config["moe_intermediate_size"], config["n_routed_experts"]
    shapes = {
        "mlp.gate.weight": (experts, hidden),
        "mlp.gate.e_score_correction_bias": (experts,),
    }
    for expert in range(experts):
        shapes |= _gated(hidden, width, f"mlp.experts.{expert}.")
    shared = width * config["n_shared_experts"]
    return shapes | _gated(hidden, shared, "mlp.shared_experts.")


def _gated(hidden: int, width: int, prefix: str) -> Shapes:
    return {
        f"{prefix}gate_proj.weight": (width, hidden),
        f"{prefix}up_proj.weight": (width, hidden),
        f"{prefix}down_proj.weight": (hidden, width),
    }
