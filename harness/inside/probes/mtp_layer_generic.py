# SPDX-License-Identifier: Apache-2.0
"""The generic DeepSeek MTP model (deepseek_mtp.py): see ``mtp_layer`` for the facts.

Nothing of the layer is replaced: attention, KV cache, metadata, experts and weight
loading are vLLM's own CPU ones.
"""

from __future__ import annotations

import copy
from typing import Any

from harness.inside.probes import mtp_layer, vllm_ranks
from harness.inside.probes.context import Context


def warm() -> None:
    import vllm.engine.arg_utils
    import vllm.model_executor.model_loader.utils
    import vllm.model_executor.models.deepseek_mtp
    import vllm.v1.attention.backends.cpu_attn  # noqa: F401


def run(context: Context) -> None:
    context.use(vllm_ranks.INSPECT_IN_PROCESS)
    config = mtp_layer.build_config(context, {})
    from vllm.model_executor.models.deepseek_mtp import DeepSeekMTP

    mtp_layer.run_model(context, draft_view(config), DeepSeekMTP)


def draft_view(config: Any) -> Any:
    """The configuration as the draft's loader sees it: the draft is the model."""
    view = copy.copy(config)
    view.model_config = config.speculative_config.draft_model_config
    return view
