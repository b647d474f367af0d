"""Baselines train like the Transformer: with ranks, shards, recomputation and Muon."""

from __future__ import annotations

import pytest
import torch

from dragoman.recipe.schema import TrainingRecipe
from dragoman.training.card import read_card
from dragoman.training.loss import MicroBatch, Objective
from dragoman.training.optimizer import build_optimizers, set_learning_rate
from dragoman.training.parallel import checkpoint_activations
from support import contract, digits, trainees
from support.small_models import BASELINES, small_model
from support.trainees import losses, outcome, train

TOLERANCE = 1e-5
"""Relative difference of losses whose gradients were summed in another order."""


@pytest.fixture(autouse=True)
def _kill_processes():
    yield
    trainees.kill_all()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if "with" in name else pytest.mark.long)
        for name in BASELINES
    ],
)
def test_ranks_and_shards_give_the_same_run(tmp_path, name):
    dropout = {"dropout": 0.1, "encoder_layers": 2, "decoder_layers": 2}
    recipe = digits.write(tmp_path, model={**BASELINES[name], **dropout})
    alone = train(recipe, "training.folder=alone")
    assert outcome(train(recipe, "training.folder=two", ranks=2)) == outcome(alone)
    recomputed = train(recipe, "training.folder=again", "training.activation_checkpointing=true")
    assert losses(recomputed) == pytest.approx(losses(alone), rel=TOLERANCE)
    shards = train(recipe, "training.folder=shards", "training.parallel=fsdp", ranks=2)
    assert losses(shards) == pytest.approx(losses(alone), rel=TOLERANCE)
    card = read_card(alone)
    assert card.flops > 0
    assert card.recipe.model.architecture == BASELINES[name]["architecture"]


def micro_batch() -> MicroBatch:
    source, is_real, target = contract.random_sentences()
    expected = target.roll(-1, dims=1)
    return MicroBatch(source, is_real, target, expected, torch.ones_like(target, dtype=torch.bool))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("name", BASELINES)
def test_both_optimizers_change_every_weight_and_lower_the_loss(name, optimizer):
    objective = Objective(small_model(**BASELINES[name]), label_smoothing=0.1).train()
    parameters = dict(objective.model.named_parameters())
    before = {name: value.detach().clone() for name, value in parameters.items()}
    matrices = objective.model.layer_matrices()
    optimizers = build_optimizers(parameters, TrainingRecipe(optimizer=optimizer), matrices)
    assert len(optimizers) == (2 if optimizer == "muon" else 1)
    set_learning_rate(optimizers, 0.01)
    batch, loss_values = micro_batch(), []
    for _ in range(10):
        objective.zero_grad()
        loss = objective(batch)
        loss.backward()
        loss_values.append(loss.item())
        for stepper in optimizers:
            stepper.step()
    assert loss_values[-1] < 0.8 * loss_values[0]
    unchanged = [name for name, value in parameters.items() if torch.equal(value, before[name])]
    assert not unchanged
    if optimizer == "muon":
        muon_ids = {id(value) for value in optimizers[1].param_groups[0]["params"]}
        by_muon = [key for key, value in parameters.items() if id(value) in muon_ids]
        assert all(parameters[key].ndim == 2 for key in by_muon)
        # The gates of a cell are one matrix; convolution kernels are not matrices.
        is_recurrent = BASELINES[name]["architecture"] == "recurrent"
        assert any("weight_hh" in key for key in by_muon) == is_recurrent


@pytest.mark.parametrize("name", BASELINES)
def test_activation_checkpointing_gives_the_same_gradients(name):
    plain = Objective(small_model(**BASELINES[name]), label_smoothing=0.1).train()
    again = Objective(small_model(**BASELINES[name]), label_smoothing=0.1).train()
    checkpoint_activations(again.model)
    for objective in (plain, again):
        objective(micro_batch()).backward()
    for (key, one), other in zip(plain.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad), key


@pytest.mark.parametrize("name", BASELINES)
def test_r_drop_without_dropout_equals_the_plain_loss(name):
    """Both passes are the same, so their divergence is 0."""
    model = small_model(**BASELINES[name])
    plain, twice = Objective(model, 0.1), Objective(model, 0.1, r_drop=1.0).train()
    torch.testing.assert_close(twice(micro_batch()), plain(micro_batch()), rtol=1e-5, atol=0)
