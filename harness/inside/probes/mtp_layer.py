# SPDX-License-Identifier: Apache-2.0
"""DeepSeek MTP models in real tensor-parallel groups: what both probes share.

Parameters of a scenario: ``tensor`` (tensor-parallel size), ``data`` (data-parallel
size; with 2, the layer runs sequence-parallel with expert parallelism) and ``tokens``.
There are tensor x data ranks. Facts of each forward of n tokens, named ``n<n>/...``:

- :class:`harness.inside.probes.observers.Memory` and ``record_collectives``;
- ``logits_hidden`` and ``recycled``, the two tensors that the layer returns;
- ``logits``, if the shape of the first is right (the head trusts it).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any

import torch

from harness.inside import cpu_sp
from harness.inside.deepseek_v3 import SETTINGS, mtp_layer_shapes
from harness.inside.observe.collectives import Collectives
from harness.inside.probes import vllm_ranks
from harness.inside.probes.context import Context
from harness.inside.probes.observers import Memory, record_collectives

HIDDEN = 256
BLOCK = 16
BLOCKS = 8

CONFIG: dict[str, Any] = {
    **SETTINGS,
    "vocab_size": 256,
    "hidden_size": HIDDEN,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 1,
    "first_k_dense_replace": 0,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
"""One MTP layer with routed experts, as small as four tensor-parallel ranks allow."""


def build_config(context: Context, overrides: dict[str, Any]) -> Any:
    """The real VllmConfig of this rank's replica, with the model's own MTP draft."""
    from vllm.engine.arg_utils import EngineArgs

    tensor, data = context.parameters["tensor"], context.parameters["data"]
    os.environ["VLLM_MLA_DISABLE"] = "1"
    hf_config = {**CONFIG, **overrides}
    engine: dict[str, Any] = {}
    if data > 1:
        context.use(*cpu_sp.STAND_INS.values())
        engine = {
            "data_parallel_size": data,
            "data_parallel_size_local": 1,
            "data_parallel_rank": context.rank // tensor,
            "data_parallel_address": "127.0.0.1",
            "enable_expert_parallel": True,
            "all2all_backend": "allgather_reducescatter",
        }
    config = EngineArgs(
        model=vllm_ranks.model_folder(context.folder, "target", hf_config),
        skip_tokenizer_init=True,
        block_size=BLOCK,
        max_model_len=BLOCK * BLOCKS,
        max_num_seqs=4,
        enforce_eager=True,
        tensor_parallel_size=tensor,
        distributed_executor_backend="mp",
        speculative_config={"method": "mtp", "num_speculative_tokens": 1},
        # The compiled rotary_embedding mis-rotates DeepseekV2Attention's query.
        compilation_config={"custom_ops": ["all", "-rotary_embedding"]},
        **engine,
    ).create_engine_config()
    config.parallel_config.data_parallel_master_port = context.port
    config.parallel_config._data_parallel_master_port_list = []
    context.fact(
        "config/use_sequence_parallel_moe",
        bool(config.parallel_config.use_sequence_parallel_moe),
    )
    return config


def weights(layer: int) -> Iterator[tuple[str, torch.Tensor]]:
    """A checkpoint of the MTP layer: names as published, values seeded by name."""
    for name, shape in mtp_layer_shapes(CONFIG).items():
        full = f"model.layers.{layer}.{name}"
        generator = torch.Generator().manual_seed(zlib.crc32(full.encode()))
        values = torch.randn(shape, generator=generator) * 0.1
        if name.endswith("norm.weight"):
            values += 1.0
        dtype = torch.float32 if name.endswith("bias") else torch.bfloat16
        yield full, values.to(dtype)


def run_model(context: Context, config: Any, model_class: type) -> None:
    """Build the draft model in its groups, load the weights, run the forwards."""
    from vllm.model_executor.model_loader.utils import process_weights_after_loading
    from vllm.utils.torch_utils import set_default_torch_dtype

    tensor = context.parameters["tensor"]
    init_method = f"tcp://127.0.0.1:{context.port}"
    with vllm_ranks.parallel_state(config, context.rank % tensor, tensor, init_method):
        with set_default_torch_dtype(torch.bfloat16):
            model = model_class(vllm_config=config, prefix="")
        loaded = model.load_weights(weights(CONFIG["num_hidden_layers"]))
        missing = {name for name, _ in model.named_parameters()} - set(loaded)
        context.fact("weights/not_loaded", sorted(missing))
        draft = config.speculative_config.draft_model_config
        process_weights_after_loading(model, draft, torch.device("cpu"))
        model.eval()
        caches = bind_caches(config)
        for count in context.parameters["tokens"]:
            forward(context, config, model, caches, count)


def bind_caches(config: Any) -> dict[str, Any]:
    """Give every attention layer a real, zeroed KV cache; returns metadata builders."""
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    builders = {}
    layers = config.compilation_config.static_forward_context
    for name, layer in layers.items():
        if not isinstance(layer, AttentionLayerBase):
            continue
        spec = layer.get_kv_cache_spec(config)
        backend = layer.get_attn_backend()
        shape = backend.get_kv_cache_shape(
            BLOCKS, BLOCK, spec.num_kv_heads, spec.head_size
        )
        layer.kv_cache = torch.zeros(shape, dtype=spec.dtype)
        builder = backend.get_builder_cls()
        builders[name] = builder(spec, [name], config, torch.device("cpu"))
    return builders


def metadata(builders: dict[str, Any], count: int) -> tuple[dict[str, Any], Any]:
    """Attention metadata of one request that prefills ``count`` tokens."""
    from vllm.v1.attention.backend import CommonAttentionMetadata

    starts = torch.tensor([0, count], dtype=torch.int32)
    slots = torch.arange(count, dtype=torch.int64)
    common = CommonAttentionMetadata(
        query_start_loc=starts,
        query_start_loc_cpu=starts,
        seq_lens=torch.tensor([count], dtype=torch.int32),
        num_reqs=1,
        num_actual_tokens=count,
        max_query_len=count,
        max_seq_len=count,
        block_table_tensor=torch.arange(BLOCKS, dtype=torch.int32).unsqueeze(0),
        slot_mapping=slots,
        causal=True,
    )
    built = {name: builder.build(0, common) for name, builder in builders.items()}
    return built, dict.fromkeys(builders, slots)


def forward(
    context: Context, config: Any, model: Any, builders: dict[str, Any], count: int
) -> None:
    """One forward; the second data-parallel replica gets two tokens more."""
    from vllm.forward_context import set_forward_context

    name = f"n{count}"
    count += 2 * config.parallel_config.data_parallel_rank
    generator = torch.Generator().manual_seed(count)
    ids = torch.randint(0, 256, (count,), generator=generator)
    hidden = torch.randn((count, HIDDEN), generator=generator).to(torch.bfloat16)
    built, slots = metadata(builders, count)
    memory, collectives = Memory(), Collectives()
    with (
        torch.inference_mode(),
        set_forward_context(built, config, num_tokens=count, slot_mapping=slots),
        collectives.watch(),
        memory,
    ):
        first, second = model(ids, torch.arange(count), hidden)
    memory.record(context, name)
    record_collectives(context, name, collectives.calls)
    context.tensor(f"{name}/logits_hidden", first)
    context.tensor(f"{name}/recycled", second)
    logits = None
    if tuple(first.shape) == (count, HIDDEN):
        with torch.inference_mode():
            logits = model.compute_logits(first)
    context.tensor(f"{name}/logits", logits)
