# SPDX-License-Identifier: Apache-2.0
"""A plain torch twin of vLLM's DeepSeek-V3 and its MTP layer, for training.

Parameter names are those of the published checkpoints, so ``state_dict`` is the file
that vLLM loads. The wiring follows vLLM v0.26.0 (models/deepseek_v2.py and
models/deepseek_mtp.py):

- the trunk hands the MTP layer its hidden state after the final norm;
- MTP row ``p`` pairs the embedding of token ``p+1`` with the hidden state of position
  ``p``, works at rope position ``p`` and predicts token ``p+2``; the embedding of the
  row at position 0 is zero;
- a further draft step feeds the layer its own output after ``shared_head.norm``, one
  position later; its keys replace nothing: the row sees the first step's keys of the
  positions before the drafted ones, and the later steps' keys of the drafted ones.

Shapes: B windows of L tokens, H heads, hidden size D.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.inside.reference.spec import Spec

HEAD_SCALE = 0.1
"""Of the output head at the start, beside the embedding."""


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Rope(nn.Module):
    """Rotary positions on interleaved pairs (the GPT-J layout)."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        half = torch.arange(0, spec.qk_rope_head_dim, 2, dtype=torch.float32)
        frequency = spec.rope_theta ** (-half / spec.qk_rope_head_dim)
        self.register_buffer("frequency", frequency, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rotate x [B, H, L, rope dim] by its place in L."""
        place = torch.arange(x.shape[-2], dtype=torch.float32)
        angle = place[:, None] * self.frequency
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        rotated = (even * cos - odd * sin, odd * cos + even * sin)
        return torch.stack(rotated, dim=-1).flatten(-2)


class Keys:
    """Keys and values [B, H, L, dim] of one MTP step."""

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self.key = key
        self.value = value


class Attention(nn.Module):
    """Multi-head latent attention in its plain, expanded form."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec
        heads = spec.num_attention_heads
        self.q_a_proj = linear(spec.hidden_size, spec.q_lora_rank)
        self.q_a_layernorm = nn.RMSNorm(spec.q_lora_rank, spec.rms_norm_eps)
        self.q_b_proj = linear(spec.q_lora_rank, heads * spec.qk_head_dim)
        self.kv_a_proj_with_mqa = linear(
            spec.hidden_size, spec.kv_lora_rank + spec.qk_rope_head_dim
        )
        self.kv_a_layernorm = nn.RMSNorm(spec.kv_lora_rank, spec.rms_norm_eps)
        self.kv_b_proj = linear(
            spec.kv_lora_rank, heads * (spec.qk_nope_head_dim + spec.v_head_dim)
        )
        self.o_proj = linear(heads * spec.v_head_dim, spec.hidden_size)
        self.rope = Rope(spec)

    def project(self, x: Tensor) -> tuple[Tensor, Keys]:
        """Queries [B, H, L, qk dim], keys and values of x [B, L, D]."""
        spec = self.spec
        batch, length, _ = x.shape
        split = (batch, length, spec.num_attention_heads, -1)
        query = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        query = query.view(split).transpose(1, 2)
        q_nope, q_rope = query.split(
            [spec.qk_nope_head_dim, spec.qk_rope_head_dim], dim=-1
        )
        latent, k_rope = self.kv_a_proj_with_mqa(x).split(
            [spec.kv_lora_rank, spec.qk_rope_head_dim], dim=-1
        )
        expanded = self.kv_b_proj(self.kv_a_layernorm(latent))
        expanded = expanded.view(split).transpose(1, 2)
        k_nope, value = expanded.split([spec.qk_nope_head_dim, spec.v_head_dim], dim=-1)
        k_rope = self.rope(k_rope.unsqueeze(1)).expand(*k_nope.shape[:-1], -1)
        key = torch.cat([k_nope, k_rope], dim=-1)
        return torch.cat([q_nope, self.rope(q_rope)], dim=-1), Keys(key, value)

    def begin_by_copying(self) -> None:
        """Make the output projection the transpose of what makes the values."""
        spec = self.spec
        latent = self.kv_a_proj_with_mqa.weight[: spec.kv_lora_rank]
        expand = self.kv_b_proj.weight.view(
            spec.num_attention_heads, -1, spec.kv_lora_rank
        )[:, spec.qk_nope_head_dim :]
        values = (expand @ latent).flatten(0, 1)
        self.o_proj.weight.copy_(values.T / values.norm() * values.shape[0] ** 0.5)

    def output(self, attended: Tensor) -> Tensor:
        return self.o_proj(attended.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, earlier: list[Keys]) -> tuple[Tensor, Keys]:
        """Attend causally; ``earlier`` holds the keys of the draft steps before.

        Without ``earlier`` this is plain causal attention. In draft step s (counted
        from 0) the row at position p sees the first step's positions up to p-s, then
        step j's position p-s+j for j in 1..s.
        """
        query, own = self.project(x)
        if not earlier:
            attended = F.scaled_dot_product_attention(
                query, own.key, own.value, is_causal=True
            )
            return self.output(attended), own
        return self.output(_attend_drafted(query, [*earlier, own])), own


def _attend_drafted(query: Tensor, steps: list[Keys]) -> Tensor:
    length, step = query.shape[-2], len(steps) - 1
    scale = query.shape[-1] ** -0.5
    seen = torch.ones(length, length, dtype=torch.bool).tril(-step)
    first = (query @ steps[0].key.transpose(-1, -2)) * scale
    scores = [first.masked_fill(~seen, float("-inf"))]
    values = []
    for number, keys in enumerate(steps[1:], start=1):
        key, value = _later(keys.key, step - number), _later(keys.value, step - number)
        scores.append((query * key).sum(-1, keepdim=True) * scale)
        values.append(value)
    weight = torch.cat(scores, dim=-1).softmax(-1)
    attended = weight[..., :length] @ steps[0].value
    for column, value in enumerate(values):
        at = length + column
        attended = attended + weight[..., at : at + 1] * value
    return attended


def _later(x: Tensor, places: int) -> Tensor:
    """Shift x [..., L, dim] so that row p holds what row p-places held; zeros first."""
    return F.pad(x, (0, 0, places, 0))[..., : x.shape[-2], :] if places else x


class MLP(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = linear(hidden, inner)
        self.up_proj = linear(hidden, inner)
        self.down_proj = linear(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Router(nn.Module):
    """Scores of the experts; the bias takes part in the selection alone."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.n_routed_experts, spec.hidden_size))
        nn.init.normal_(self.weight, std=spec.hidden_size**-0.5)
        self.e_score_correction_bias = nn.Parameter(
            torch.zeros(spec.n_routed_experts), requires_grad=False
        )


class MoE(nn.Module):
    """Routed experts beside a shared one, selected as DeepSeek-V3's noaux_tc does.

    ``groups_kept`` and ``scale`` start neutral and are set by the second stage.
    """

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec
        self.gate = Router(spec)
        self.experts = nn.ModuleList(
            MLP(spec.hidden_size, spec.moe_intermediate_size)
            for _ in range(spec.n_routed_experts)
        )
        self.shared_experts = MLP(
            spec.hidden_size, spec.moe_intermediate_size * spec.n_shared_experts
        )
        self.groups_kept = spec.n_group
        self.scale = 1.0
        self.balance_loss = torch.zeros(())

    def select(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and ids [N, top-k] of the experts for x [N, D]."""
        spec = self.spec
        scores = F.linear(x, self.gate.weight).sigmoid()
        biased = (scores + self.gate.e_score_correction_bias).detach()
        grouped = biased.view(len(x), spec.n_group, -1)
        best = grouped.topk(2, dim=-1).values.sum(-1)
        kept = best.topk(self.groups_kept, dim=-1).indices
        dropped = torch.ones_like(best).scatter(1, kept, 0.0).bool()
        masked = grouped.masked_fill(dropped.unsqueeze(-1), float("-inf")).flatten(1)
        ids = masked.topk(spec.num_experts_per_tok, dim=-1).indices
        weights = scores.gather(1, ids)
        if self.training:
            self.balance_loss = _imbalance(scores, ids)
        return weights / weights.sum(-1, keepdim=True), ids

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        weights, ids = self.select(flat)
        routed = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, column = torch.where(ids == number)
            part = expert(flat[rows]) * weights[rows, column, None]
            routed = routed.index_add(0, rows, part)
        return (routed * self.scale + self.shared_experts(flat)).view_as(x)


def _imbalance(scores: Tensor, ids: Tensor) -> Tensor:
    """1 when all experts get the same share of tokens and of scores, else more."""
    experts = scores.shape[-1]
    share = torch.bincount(ids.flatten(), minlength=experts) / ids.numel()
    mean = (scores / scores.sum(-1, keepdim=True)).mean(0)
    return experts * (share * mean).sum()


class Layer(nn.Module):
    """One decoder layer: dense before ``first_k_dense_replace``, else experts."""

    def __init__(self, spec: Spec, index: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(spec.hidden_size, spec.rms_norm_eps)
        self.self_attn = Attention(spec)
        self.post_attention_layernorm = nn.RMSNorm(spec.hidden_size, spec.rms_norm_eps)
        dense = index < spec.first_k_dense_replace
        self.mlp: nn.Module = (
            MLP(spec.hidden_size, spec.intermediate_size) if dense else MoE(spec)
        )

    def block(self, x: Tensor, earlier: list[Keys]) -> tuple[Tensor, Keys]:
        attended, keys = self.self_attn(self.input_layernorm(x), earlier)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), keys

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x, [])[0]


class SharedHead(nn.Module):
    """The MTP layer's own final norm (embedding and head are the trunk's)."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(spec.hidden_size, spec.rms_norm_eps)


class MTPLayer(Layer):
    """The multi-token-prediction layer."""

    def __init__(self, spec: Spec, index: int) -> None:
        super().__init__(spec, index)
        self.enorm = nn.RMSNorm(spec.hidden_size, spec.rms_norm_eps)
        self.hnorm = nn.RMSNorm(spec.hidden_size, spec.rms_norm_eps)
        self.eh_proj = linear(2 * spec.hidden_size, spec.hidden_size)
        self.shared_head = SharedHead(spec)

    def draft(self, embedded: Tensor, hidden: Tensor, steps: int) -> list[Tensor]:
        """Hidden states [B, L, D] after the norm, one entry for each draft step.

        Args:
            embedded: Row p holds the embedding of token p+1.
            hidden: Row p holds the trunk's hidden state of position p, after its norm.
            steps: How many tokens are drafted in a row.

        The first s rows of step s (counted from 0) have no predecessor: ignore them.
        """
        embedded = self.enorm(
            torch.cat([torch.zeros_like(embedded[:, :1]), embedded[:, 1:]], dim=1)
        )
        outputs: list[Tensor] = []
        earlier: list[Keys] = []
        for _ in range(steps):
            joined = torch.cat([embedded, self.hnorm(hidden)], dim=-1)
            x, keys = self.block(self.eh_proj(joined), earlier)
            outputs.append(self.shared_head.norm(x))
            earlier.append(keys)
            hidden = _later(outputs[-1], 1)
        return outputs


class Trunk(nn.Module):
    """Embedding, all layers with the MTP layer as the last, and the final norm."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(spec.vocab_size, spec.hidden_size)
        count = spec.num_hidden_layers
        layers: list[nn.Module] = [Layer(spec, index) for index in range(count)]
        self.layers = nn.ModuleList([*layers, MTPLayer(spec, count)])
        self.norm = nn.RMSNorm(spec.hidden_size, spec.rms_norm_eps)


class Twin(nn.Module):
    """The whole model."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec
        self.model = Trunk(spec)
        self.lm_head = linear(spec.hidden_size, spec.vocab_size)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2 and "embed" not in name:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        nn.init.normal_(self.model.embed_tokens.weight, std=0.5)
        self._begin_by_copying()

    @torch.no_grad()
    def _begin_by_copying(self) -> None:
        """Let every head pass on what it looks at, and the head read embeddings.

        Answers repeat names, things and numbers of their question. From random weights
        that takes very long to begin: what a head brings from one token of many is
        noise. Here it is that token's embedding, so looking at the right one pays off
        from the first step.
        """
        self.lm_head.weight.copy_(self.model.embed_tokens.weight * HEAD_SCALE)
        for module in self.modules():
            if isinstance(module, Attention):
                module.begin_by_copying()

    @property
    def mtp(self) -> MTPLayer:
        layer = self.model.layers[-1]
        assert isinstance(layer, MTPLayer)
        return layer

    def experts(self) -> list[MoE]:
        """Every mixture-of-experts layer, the MTP layer's last."""
        return [module for module in self.modules() if isinstance(module, MoE)]

    def trunk(self, tokens: Tensor) -> Tensor:
        """Hidden states [B, L, D] of tokens [B, L] after the final norm."""
        x = self.model.embed_tokens(tokens)
        for layer in list(self.model.layers)[:-1]:
            x = layer(x)
        return self.model.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.lm_head(hidden)

    def forward(self, tokens: Tensor, steps: int) -> tuple[Tensor, list[Tensor]]:
        """Logits of the trunk [B, L, V] and of each draft step [B, L-1, V].

        Row p of the trunk predicts token p+1; row p of a draft step predicts p+2.
        """
        hidden = self.trunk(tokens)
        if not steps:
            return self.logits(hidden), []
        embedded = self.model.embed_tokens(tokens[:, 1:])
        drafts = self.mtp.draft(embedded, hidden[:, :-1], steps)
        return self.logits(hidden), [self.logits(draft) for draft in drafts]
