# SPDX-License-Identifier: Apache-2.0
"""What vLLM's CPU backend lacks to serve sequence-parallel, expert-parallel layers.

A general plugin of vLLM, loaded for measuring only. Each missing thing is one stand-in
of :data:`STAND_INS`, put in place when the module it changes is imported. The
implementations are in the modules beside this one, which need torch; this one does not,
so that a report can name the stand-ins wherever it is written.
"""

from __future__ import annotations

from harness.inside.on_import import when_imported
from harness.inside.standins import StandIn

COMMUNICATOR = "vllm.distributed.device_communicators.cpu_communicator"
EXPERTS = "vllm.model_executor.layers.fused_moe.cpu_fused_moe"


def _all_gatherv() -> None:
    from harness.inside.cpu_sp import collectives

    collectives.install_all_gatherv()


def _reduce_scatterv() -> None:
    from harness.inside.cpu_sp import collectives

    collectives.install_reduce_scatterv()


def _expert_map() -> None:
    from harness.inside.cpu_sp import experts

    experts.install()


ALL_GATHERV = StandIn(
    name="cpu-all-gatherv",
    replaces="CpuCommunicator.all_gatherv: rows padded to the longest rank's number, "
    "gathered, and cut again",
    reason="not implemented (distributed/device_communicators/"
    "base_device_communicator.py:224); the expert-parallel dispatch needs it "
    "(all2all.py:90)",
    install=_all_gatherv,
)

REDUCE_SCATTERV = StandIn(
    name="cpu-reduce-scatterv",
    replaces="CpuCommunicator.reduce_scatterv: all-reduce, of which each rank keeps "
    "its rows",
    reason="not implemented (distributed/device_communicators/"
    "base_device_communicator.py:265); the expert-parallel combine needs it "
    "(all2all.py:148)",
    install=_reduce_scatterv,
)

EXPERT_MAP = StandIn(
    name="cpu-expert-map",
    replaces="the inputs of CPUFusedMOE's kernels: only the rows that are routed to an "
    "expert of this rank, with the expert's number on this rank",
    reason="expert_map is taken and ignored (model_executor/layers/fused_moe/"
    "cpu_fused_moe.py:253 and :277), so the kernels would read past the weights of "
    "this rank",
    install=_expert_map,
)

STAND_INS = {
    stand_in.name: stand_in for stand_in in (ALL_GATHERV, REDUCE_SCATTERV, EXPERT_MAP)
}
"""All of them, by name; the plugin puts all in place."""


def main() -> None:
    """The plugin's entry."""
    when_imported(COMMUNICATOR, ALL_GATHERV.activate)
    when_imported(COMMUNICATOR, REDUCE_SCATTERV.activate)
    when_imported(EXPERTS, EXPERT_MAP.activate)
