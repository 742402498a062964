# SPDX-License-Identifier: Apache-2.0
"""DeepSeek V4: the buffer that keeps the residual streams for a draft model.

Parameters of a scenario: ``backend`` (amd, nvidia, xpu), ``method`` (a speculative
method, or null), ``pipeline`` (pipeline-parallel size, also the number of ranks),
``tokens`` (sizes of the forwards, may be empty) and ``model`` (overrides of the small
model's configuration). Facts:

- ``limits/max_num_batched_tokens``, which the buffer has rows for.
- ``buffer.{shape,dtype,bytes}`` after construction.
- ``build/...``: see :class:`harness.inside.probes.observers.Memory`.
- ``n<tokens>/...``: the same for a forward, its collectives, output and the residual
  it handed to the head, and of the buffer: ``rows`` (the first n), whether these are
  the residual, and whether the rows after them were left alone.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from harness.inside.observe.collectives import Collectives
from harness.inside.probes import deepseek_v4_standins as standins
from harness.inside.probes import drafts, vllm_ranks
from harness.inside.probes.context import Context
from harness.inside.probes.observers import Memory, record_collectives
from harness.inside.standins import StandIn

BACKENDS = ("amd", "nvidia", "xpu")

SMALL: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "vocab_size": 256,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "q_lora_rank": 64,
    "o_lora_rank": 64,
    "head_dim": 128,
    "qk_rope_head_dim": 64,
    "o_groups": 2,
    "sliding_window": 128,
    "compress_ratios": [4, 128],
    "rms_norm_eps": 1e-6,
    "hc_mult": 4,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 4,
    "index_topk": 64,
    "index_n_heads": 4,
    "index_head_dim": 128,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
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
    "rope_scaling": {
        "type": "yarn",
        "factor": 4,
        "original_max_position_embeddings": 256,
        "beta_fast": 32,
        "beta_slow": 1,
    },
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
"""One layer of each attention kind, as narrow as the layers allow."""


LIMIT = StandIn(
    name="batched-tokens",
    replaces="the engine's max_num_batched_tokens, by the number that was asked for",
    reason="the CPU platform raises a smaller one to 2048 for MLA models "
    "(platforms/cpu.py:323)",
    install=lambda: None,
)


def warm() -> None:
    import vllm.engine.arg_utils
    import vllm.model_executor.model_loader.utils  # noqa: F401

    for backend in BACKENDS:
        importlib.import_module(f"vllm.models.deepseek_v4.{backend}.model")


def run(context: Context) -> None:
    parameters = context.parameters
    context.use(vllm_ranks.INSPECT_IN_PROCESS, *standins.needed(parameters["backend"]))
    config = build_config(context, parameters)
    init_method = f"tcp://127.0.0.1:{context.port}"
    with vllm_ranks.parallel_state(config, context.rank, context.ranks, init_method):
        model = build(context, config)
        for count in parameters["tokens"]:
            forward(context, config, model, count)


def build_config(context: Context, parameters: dict[str, Any]) -> Any:
    """The real VllmConfig of a scenario, with the batched tokens that it asks for."""
    from vllm.engine.arg_utils import EngineArgs

    hf_config = {**SMALL, **parameters.get("model", {})}
    pipeline = parameters["pipeline"]
    limit = parameters.get("max_num_batched_tokens", 512)
    arguments = EngineArgs(
        model=vllm_ranks.model_folder(context.folder, "target", hf_config),
        skip_tokenizer_init=True,
        kv_cache_dtype="fp8",
        block_size=256,
        max_model_len=512,
        max_num_batched_tokens=limit,
        max_num_seqs=4,
        enforce_eager=parameters.get("enforce_eager", True),
        pipeline_parallel_size=pipeline,
        distributed_executor_backend="mp" if pipeline > 1 else None,
        **parameters.get("engine", {}),
    )
    config = drafts.with_method(
        context, arguments, parameters["method"], hf_config["vocab_size"]
    )
    if config.scheduler_config.max_num_batched_tokens != limit:
        context.use(LIMIT)
        config.scheduler_config.max_num_batched_tokens = limit
    context.fact("limits/max_num_batched_tokens", limit)
    return config


def build(context: Context, config: Any) -> Any:
    """The real model, built under the eye of an observer and filled from seeds."""
    from vllm.model_executor.model_loader.utils import process_weights_after_loading
    from vllm.utils.torch_utils import set_default_torch_dtype

    name = f"vllm.models.deepseek_v4.{context.parameters['backend']}.model"
    memory = Memory()
    with set_default_torch_dtype(config.model_config.dtype), memory:
        model = importlib.import_module(name).DeepseekV4ForCausalLM(vllm_config=config)
    memory.record(context, "build")
    buffer = model.get_mtp_target_hidden_states()
    context.fact("buffer.shape", None if buffer is None else list(buffer.shape))
    dtype = None if buffer is None else str(buffer.dtype).removeprefix("torch.")
    context.fact("buffer.dtype", dtype)
    size = 0 if buffer is None else buffer.numel() * buffer.element_size()
    context.fact("buffer.bytes", size)
    if context.parameters["tokens"]:
        vllm_ranks.fill(model)
        if hasattr(model.model, "finalize_mhc_broadcast_weights"):
            model.model.finalize_mhc_broadcast_weights()
        process_weights_after_loading(model, config.model_config, torch.device("cpu"))
    return model.eval()


def forward(context: Context, config: Any, model: Any, count: int) -> None:
    """One forward of ``count`` tokens through this rank's part of the pipeline."""
    from vllm.distributed import get_pp_group
    from vllm.forward_context import set_forward_context
    from vllm.sequence import IntermediateTensors

    name = f"n{count}"
    group = get_pp_group()
    generator = torch.Generator().manual_seed(count)
    ids = torch.randint(0, SMALL["vocab_size"], (count,), generator=generator)
    positions = torch.arange(count)
    buffer = model.get_mtp_target_hidden_states()
    if buffer is not None:
        buffer.fill_(7.0)
    memory, collectives = Memory(), Collectives()
    with (
        torch.inference_mode(),
        set_forward_context(None, config, num_tokens=count),
        collectives.watch(),
        standins.watch_head() as heads,
    ):
        received = None
        if not group.is_first_rank:
            received = IntermediateTensors(group.recv_tensor_dict())
        with memory:
            output = model(ids, positions, received)
        if not group.is_last_rank:
            group.send_tensor_dict(output.tensors)
    memory.record(context, name)
    record_collectives(context, name, collectives.calls)
    if not group.is_last_rank:
        context.tensor(f"{name}/output", output.tensors["hidden_states"])
        return
    context.tensor(f"{name}/output", output)
    (residual,) = heads
    context.tensor(f"{name}/residual", residual)
    record_rows(context, name, buffer, residual)


def record_rows(context: Context, name: str, buffer: Any, residual: Any) -> None:
    """What the forward left in the buffer (filled with sevens before it)."""
    count = residual.shape[0]
    rows = None if buffer is None else buffer[:count]
    context.tensor(f"{name}/rows", rows)
    same = None if rows is None else bool(torch.equal(rows, residual.flatten(1)))
    context.fact(f"{name}/rows_are_residual", same)
    untouched = None if buffer is None else bool((buffer[count:] == 7.0).all())
    context.fact(f"{name}/other_rows_untouched", untouched)
