# SPDX-License-Identifier: Apache-2.0
"""What makes faults visible: parts of the architecture that plain training leaves idle.

With norm gains all alike, router biases at zero, all expert groups open and a routed
scale of one, a model answers the same when one of these parts is broken. They go in
between the stages; from the start they slow the training down a lot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from harness.inside.reference.model import MLP, Layer, MoE, MTPLayer, Twin
from harness.inside.reference.recipe import Recipe


def set_routing(model: Twin) -> None:
    """Switch on the group limit and the routed scale of the specification."""
    for layer in model.experts():
        layer.groups_kept = model.spec.topk_group
        layer.scale = model.spec.routed_scaling_factor


@torch.no_grad()
def disturb(model: Twin, recipe: Recipe) -> None:
    """Put in random norm gains and router biases, the group limit and the scale.

    The weights behind a norm are divided by its new gains, and the experts' outputs by
    the scale, so that neither changes what the model says: only later, in the training
    and in a broken server, do they part. Biases and group limit change the routing.
    """
    chance = torch.Generator().manual_seed(recipe.seed + 1)
    reach = math.log1p(recipe.gain_spread)
    for norm, readers in _norms(model):
        gains = torch.exp(_even(norm.weight.shape, chance) * reach)
        norm.weight.mul_(gains)
        for weight in readers:
            weight.div_(gains)
    set_routing(model)
    for layer in model.experts():
        bias = layer.gate.e_score_correction_bias
        bias.copy_(_even(bias.shape, chance) * recipe.bias_spread)
        for expert in layer.experts:
            expert.down_proj.weight.div_(layer.scale)


def _even(shape: torch.Size, chance: torch.Generator) -> Tensor:
    """Evenly drawn from -1 to 1."""
    return torch.rand(shape, generator=chance) * 2 - 1


def _norms(model: Twin) -> Iterator[tuple[nn.RMSNorm, list[Tensor]]]:
    """Every norm with the weights [out, in] that read what it puts out.

    The head reads the draft's own final norm too, and has one set of weights: there the
    gains do change what the layer says.
    """
    for layer in model.model.layers:
        yield from _layer_norms(layer)
    mtp = model.mtp
    embedded, hidden = mtp.eh_proj.weight.chunk(2, dim=1)
    yield mtp.enorm, [embedded]
    yield mtp.hnorm, [hidden]
    yield mtp.shared_head.norm, []
    yield model.model.norm, [model.lm_head.weight]


def _layer_norms(layer: Layer | MTPLayer) -> Iterator[tuple[nn.RMSNorm, list[Tensor]]]:
    attention = layer.self_attn
    queries, latent = attention.q_a_proj.weight, attention.kv_a_proj_with_mqa.weight
    yield layer.input_layernorm, [queries, latent]
    yield attention.q_a_layernorm, [attention.q_b_proj.weight]
    yield attention.kv_a_layernorm, [attention.kv_b_proj.weight]
    yield layer.post_attention_layernorm, list(_first_weights(layer.mlp))


def _first_weights(part: nn.Module) -> Iterator[Tensor]:
    if isinstance(part, MoE):
        yield part.gate.weight
    for module in part.modules():
        if isinstance(module, MLP):
            yield module.gate_proj.weight
            yield module.up_proj.weight
