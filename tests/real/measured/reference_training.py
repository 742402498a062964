# SPDX-License-Identifier: Apache-2.0
"""Run by the measured Python: how the reference model is trained and scored."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from harness.inside.reference import score as scores
from harness.inside.reference.batches import Shape
from harness.inside.reference.disturb import disturb, set_routing
from harness.inside.reference.model import Twin
from harness.inside.reference.problems import distinct
from harness.inside.reference.recipe import Recipe, Stage
from harness.inside.reference.spec import Spec
from harness.inside.reference.train import Run, make_tokenizer

SPEC = Spec()
DRILLS, PROBLEMS = Shape("drills", 4, 26, 0.1), Shape("problems", 1, 120, 0.1)


def stage(*shapes: Shape, drafts: int = 0, disturbed: bool = False) -> Stage:
    return Stage(4, shapes, 1e-3, 1e-3, 1, (drafts,), disturbed=disturbed)


SHORT = Recipe(
    stages=(stage(DRILLS), stage(DRILLS, PROBLEMS, drafts=2, disturbed=True)),
    tokenizer_problems=2000,
)


def twin(spec: Spec = SPEC) -> Twin:
    torch.manual_seed(3)
    return Twin(spec).eval()


def logits(model: Twin) -> Tensor:
    tokens = torch.arange(60).view(2, 30) * 5
    with torch.no_grad():
        return model(tokens, 0)[0]


def gains_and_scale_change_no_word() -> None:
    model = twin(dataclasses.replace(SPEC, topk_group=SPEC.n_group))
    before = logits(model)
    disturb(model, dataclasses.replace(Recipe(), bias_spread=0.0))
    torch.testing.assert_close(logits(model), before, atol=1e-4, rtol=1e-4)
    norms = [m for m in model.modules() if isinstance(m, nn.RMSNorm)]
    assert len(norms) == 4 * 4 + 4
    for norm in norms:
        assert norm.weight.std() > 0.1
        assert 1 / 1.5 <= norm.weight.min() <= norm.weight.max() <= 1.5


def each_disturbance_matters() -> None:
    """What it puts in must be seen when a server leaves it out."""
    model = twin()
    disturb(model, Recipe())
    whole = logits(model)
    for broken in (no_bias, no_scale, no_groups, no_gains):
        model = twin()
        disturb(model, Recipe())
        broken(model)
        assert (logits(model) - whole).abs().max() > 1e-3, broken.__name__


def no_bias(model: Twin) -> None:
    for layer in model.experts():
        layer.gate.e_score_correction_bias.data.zero_()


def no_scale(model: Twin) -> None:
    for layer in model.experts():
        layer.scale = 1.0


def no_groups(model: Twin) -> None:
    for layer in model.experts():
        layer.groups_kept = SPEC.n_group


def no_gains(model: Twin) -> None:
    for module in model.modules():
        if isinstance(module, nn.RMSNorm):
            module.weight.data.fill_(1.0)


def run(folder: Path, recipe: Recipe = SHORT) -> Run:
    torch.use_deterministic_algorithms(True)
    return Run(folder, recipe, SPEC)


def an_interrupted_run_ends_in_the_same_bytes() -> None:
    with tempfile.TemporaryDirectory() as name:
        whole, parts = Path(name, "whole"), Path(name, "parts")
        whole.mkdir(), parts.mkdir()
        undisturbed = run(whole)
        assert not undisturbed.resume()
        undisturbed.train(8, lambda line: None)
        undisturbed.finish()
        for until in (2, 6, 8):
            again = run(parts)
            assert again.resume() == (until > 2)
            again.train(until, lambda line: None)
        again.finish()
        file = "model/model.safetensors"
        assert (whole / file).read_bytes() == (parts / file).read_bytes()
        other = dataclasses.replace(SHORT, clip=2.0)
        refused = ""
        try:
            run(parts, other).resume()
        except ValueError as error:
            refused = str(error)
        assert "another recipe" in refused, "its checkpoint was taken"


class Oracle(nn.Module):
    """Says the text as it is, but for the tokens at one place from the end."""

    def __init__(self, wrong: dict[int, int]) -> None:
        """``wrong``: from the trunk (0) or a draft step, the place it gets wrong."""
        super().__init__()
        self.wrong = wrong

    def forward(self, tokens: Tensor, steps: int) -> tuple[Tensor, list[Tensor]]:
        def say(step: int, ahead: int) -> Tensor:
            said = tokens.clone()
            if step in self.wrong:
                said[0, self.wrong[step]] = (said[0, self.wrong[step]] + 1) % 400
            said = functional.pad(said[:, ahead:], (0, 1))
            return functional.one_hot(said, 400).float()

        return say(0, 1), [say(step + 1, 2) for step in range(steps)]


def scores_are_those_of_known_mistakes() -> None:
    tokenizer = make_tokenizer(SHORT, SPEC)
    (problem,) = distinct(1, scores.SEED, held_out=True)
    length = len(tokenizer.encode(problem.completion).ids)

    def found(wrong: dict[int, int]) -> scores.Score:
        return scores.score(Oracle(wrong), tokenizer, problems=1, drafts=2)

    tried = length - 2
    for wrong, exact, misses in (
        ({}, 1, (0, 0)),
        ({0: -1}, 0, (0, 0)),
        ({0: -length}, 0, (0, 0)),
        ({0: -length - 1}, 1, (0, 0)),
        ({1: -5}, 1, (1, 1)),
        ({2: -5}, 1, (0, 1)),
        ({1: -5, 2: -5}, 1, (1, 2)),
    ):
        got = found(wrong)
        assert got.exact == exact, (wrong, got)
        wanted = [(tried - missed) / tried for missed in misses]
        torch.testing.assert_close(list(got.accepted), wanted, msg=f"{wrong} {got}")


def routing_is_set_on_every_layer_of_experts() -> None:
    model = twin()
    set_routing(model)
    assert [(e.groups_kept, e.scale) for e in model.experts()] == [(2, 2.5)] * 3


CASES = (
    gains_and_scale_change_no_word,
    each_disturbance_matters,
    an_interrupted_run_ends_in_the_same_bytes,
    scores_are_those_of_known_mistakes,
    routing_is_set_on_every_layer_of_experts,
)

if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in CASES:
        case()
        print(f"{case.__name__}: ok", flush=True)
