# SPDX-License-Identifier: Apache-2.0
"""Which speculative methods share a compile-cache key.

Parameter: ``methods``. Facts: ``<method>/same_key_as`` is the first of the methods
whose ``SpeculativeConfig`` has the same ``compute_hash()``, or itself;
``<method>/reads_target_hidden_states`` is what the config's own predicates say.
"""

from __future__ import annotations

from typing import Any

from harness.inside.probes import deepseek_v4_buffer, vllm_ranks
from harness.inside.probes.context import Context

warm = deepseek_v4_buffer.warm


def run(context: Context) -> None:
    context.use(vllm_ranks.INSPECT_IN_PROCESS)
    hashes: list[str] = []
    for method in context.parameters["methods"]:
        parameters: dict[str, Any] = {"method": method, "pipeline": 1}
        scratch = Context(parameters, 0, 1, context.folder, context.port)
        config = deepseek_v4_buffer.build_config(scratch, parameters)
        context.standins.update(scratch.standins)
        speculative = config.speculative_config
        hashes.append(speculative.compute_hash())
        first = context.parameters["methods"][hashes.index(hashes[-1])]
        context.fact(f"{method}/same_key_as", first)
        reads = speculative.use_eagle() or speculative.uses_draft_model()
        context.fact(f"{method}/reads_target_hidden_states", bool(reads))
