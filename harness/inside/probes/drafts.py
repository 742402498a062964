# SPDX-License-Identifier: Apache-2.0
"""A real SpeculativeConfig for every method that the pin accepts, with tiny drafts."""

from __future__ import annotations

from typing import Any

from harness.inside.probes import vllm_ranks
from harness.inside.probes.context import Context
from harness.inside.standins import StandIn

_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
}
_DRAFTS: dict[str, dict[str, Any]] = {
    "eagle": _LLAMA,
    "eagle3": _LLAMA,
    "draft_model": _LLAMA,
    "dflash": {
        **_LLAMA,
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "head_dim": 64,
        "block_size": 8,
        "dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 1]},
    },
    "medusa": {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": 128,
        "num_heads": 2,
        "num_hidden_layers": 1,
    },
}
"""Draft models' configurations, for the methods that need one of their own."""

_EXTRA: dict[str, dict[str, Any]] = {
    "custom_class": {"model": "some.Proposer"},
    "dspark": {"num_speculative_tokens": 5},
    "extract_hidden_states": {
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": [1]}}
    },
}


def _accept_suffix() -> None:
    import vllm.config.speculative as speculative

    speculative.has_arctic_inference = lambda: True


SUFFIX = StandIn(
    name="arctic-inference",
    replaces="the check that arctic-inference is installed, by yes",
    reason="config/speculative.py refuses the method suffix without that package; "
    "nothing of it is called when a model is built or run",
    install=_accept_suffix,
)


def _attach_reason(why: str) -> StandIn:
    return StandIn(
        name="speculative-config-attached",
        replaces="the engine configuration's own speculative part, by a real "
        "SpeculativeConfig of the same target, set after validation",
        reason=why,
        install=lambda: None,
    )


_PIPELINE = _attach_reason(
    "the pin refuses pipeline parallelism with most drafts of this model "
    "(config/speculative.py:1255, config/model.py:1241)"
)
_TRITON = _attach_reason(
    "config/vllm.py allows the method only with the V2 runner, which needs Triton"
)


def arguments_for(context: Context, method: str, vocabulary: int) -> dict[str, Any]:
    """What a user would pass as ``--speculative-config`` for this method."""
    wanted: dict[str, Any] = {"method": method, "num_speculative_tokens": 1}
    if method in _DRAFTS:
        config = {**_DRAFTS[method], "vocab_size": vocabulary}
        if method == "eagle3":
            config["draft_vocab_size"] = vocabulary
        wanted["model"] = vllm_ranks.model_folder(context.folder, method, config)
    return {**wanted, **_EXTRA.get(method, {})}


def with_method(
    context: Context, arguments: Any, method: str | None, vocabulary: int
) -> Any:
    """The VllmConfig of ``arguments`` (EngineArgs) with this speculative method.

    Where the pin's engine refuses a combination that its SpeculativeConfig accepts,
    the config is made for one pipeline stage and attached; the result says so.
    """
    if method is None:
        return arguments.create_engine_config()
    if method == "suffix":
        context.use(SUFFIX)
    wanted = arguments_for(context, method, vocabulary)
    attach = None
    if arguments.pipeline_parallel_size > 1:
        attach = _PIPELINE
    elif method == "dspark":
        attach = _TRITON
    if attach is None:
        arguments.speculative_config = wanted
        return arguments.create_engine_config()
    context.use(attach)
    config = arguments.create_engine_config()
    config.speculative_config = speculative(config, wanted)
    return config


def speculative(config: Any, wanted: dict[str, Any]) -> Any:
    """A real SpeculativeConfig for the target of ``config`` at one pipeline stage."""
    import copy

    from vllm.config import SpeculativeConfig

    parallel = copy.copy(config.parallel_config)
    parallel.pipeline_parallel_size = 1
    parallel.world_size = parallel.tensor_parallel_size
    return SpeculativeConfig(
        target_model_config=config.model_config,
        target_parallel_config=parallel,
        **wanted,
    )
