"""Are the rivals trained like the Transformer: by many ranks, in shards, again, and by Muon?"""

from __future__ import annotations

import json

import pytest
import torch

import digits
from contract import contract
from dragoman.recipe import TrainingRecipe
from dragoman.training.loss import MicroBatch, Objective
from dragoman.training.optimizer import build_optimizers, set_learning_rate
from dragoman.training.parallel import recompute
from small_models import RIVALS, small_model
from training import trainees
from training.trainees import losses, outcome, train

TOLERANCE = 1e-5
"""Relative, of a loss whose gradients were added in another order; as for the Transformer."""


@pytest.fixture(autouse=True)
def _nobody_is_left():
    yield
    trainees.kill_the_rest()


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_ranks_and_shards_learn_the_same(tmp_path, name):
    dropout = {"dropout": 0.1, "encoder_layers": 2, "decoder_layers": 2}
    recipe = digits.write(tmp_path, model={**RIVALS[name], **dropout})
    alone = train(recipe, "training.folder=alone")
    assert outcome(train(recipe, "training.folder=two", ranks=2)) == outcome(alone)
    again = train(recipe, "training.folder=again", "training.recompute=true")
    assert losses(again) == pytest.approx(losses(alone), rel=TOLERANCE)
    shards = train(recipe, "training.folder=shards", "training.parallel=fsdp", ranks=2)
    assert losses(shards) == pytest.approx(losses(alone), rel=TOLERANCE)
    card = json.loads((alone / "card.json").read_text(encoding="utf-8"))
    assert card["flops"] > 0
    assert card["recipe"]["model"]["architecture"] == RIVALS[name]["architecture"]


def micro_batch() -> MicroBatch:
    source, is_real, target = contract.some_sentences()
    expected = target.roll(-1, dims=1)
    return MicroBatch(source, is_real, target, expected, torch.ones_like(target, dtype=torch.bool))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("name", RIVALS)
def test_both_optimizers_move_every_weight_and_lower_the_loss(name, optimizer):
    objective = Objective(small_model(**RIVALS[name]), label_smoothing=0.1).train()
    parameters = dict(objective.model.named_parameters())
    before = {key: each.detach().clone() for key, each in parameters.items()}
    optimizers = build_optimizers(parameters, TrainingRecipe(optimizer=optimizer))
    assert len(optimizers) == (2 if optimizer == "muon" else 1)
    set_learning_rate(optimizers, 0.01)
    batch, found = micro_batch(), []
    for _ in range(10):
        objective.zero_grad()
        loss = objective(batch)
        loss.backward()
        found.append(loss.item())
        for each in optimizers:
            each.step()
    assert found[-1] < 0.8 * found[0]
    still = [key for key, each in parameters.items() if torch.equal(each, before[key])]
    assert not still
    if optimizer == "muon":
        whole = {id(each) for each in optimizers[1].param_groups[0]["params"]}
        moved = [key for key, each in parameters.items() if id(each) in whole]
        assert all(parameters[key].ndim == 2 for key in moved)
        # The gates of a cell lie above each other and move as one; windows are no matrices.
        is_recurrent = RIVALS[name]["architecture"] == "recurrent"
        assert any("weight_hh" in key for key in moved) == is_recurrent


@pytest.mark.parametrize("name", RIVALS)
def test_layers_that_are_computed_again_give_the_same_gradients(name):
    plain = Objective(small_model(**RIVALS[name]), label_smoothing=0.1).train()
    again = Objective(small_model(**RIVALS[name]), label_smoothing=0.1).train()
    recompute(again.model)
    for objective in (plain, again):
        objective(micro_batch()).backward()
    for (key, one), other in zip(plain.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad), key


@pytest.mark.parametrize("name", RIVALS)
def test_what_reads_twice_agrees_with_itself(name):
    """R-Drop: without dropout both readings are the same, and nothing parts them."""
    model = small_model(**RIVALS[name])
    plain, twice = Objective(model, 0.1), Objective(model, 0.1, r_drop=1.0).train()
    torch.testing.assert_close(twice(micro_batch()), plain(micro_batch()), rtol=1e-5, atol=0)
