"""The arithmetic of a plan agrees with `show --model`, real parameters, and real batches."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from dragoman.data.manifest import Manifest
from dragoman.data.store import Prepared
from dragoman.errors import DataError
from dragoman.model.build import build_model
from dragoman.model.cost import measure
from dragoman.planning.machines import choose_machines, read_prices
from dragoman.planning.memory import (
    activation_bytes,
    checkpoint_bytes,
    rank_memory,
)
from dragoman.planning.sizes import (
    CorpusSize,
    checkpoint_count,
    corpus_size,
    model_size,
    update_flops,
    update_size,
    validation_count,
    with_real_vocabulary,
)
from dragoman.recipe.files import load_recipe
from dragoman.storage.mirror import local_path
from dragoman.training.feed import to_tensors
from dragoman.training.loss import MicroBatch, Objective
from dragoman.training.optimizer import build_optimizers, moments

ONE_LAYER = ("model.encoder_layers=1", "model.decoder_layers=1")
CORPUS = CorpusSize(1000, 31_000, 31_000, 257, "estimated")


def test_parameters_are_those_of_the_model():
    recipe = load_recipe("tiny")
    size = recipe.tokenizer.vocabulary_size
    model = build_model(recipe.model, size, size)
    expected = sum(parameter.numel() for parameter in model.parameters())
    assert model_size(recipe, CORPUS).parameters == expected


@pytest.mark.parametrize("preset", ["tiny", pytest.param("base", marks=pytest.mark.slow)])
def test_flops_are_three_times_those_of_show_model(preset):
    recipe = load_recipe(preset)
    model = model_size(recipe, CORPUS)  # 31 tokens and END on each side.
    assert model.position_flops == measure(recipe, 32, 32).flops / 32
    update = update_size(recipe, CORPUS, 1)
    expected = 3 * recipe.training.tokens_per_update * model.position_flops
    assert update_flops(model, update) == pytest.approx(expected)


@pytest.mark.slow
def test_the_base_model_costs_less_than_the_paper_states():
    recipe = load_recipe("base")
    corpus = CorpusSize(4_500_000, 31 * 4.5e6, 31 * 4.5e6, 257, "estimated")
    model = model_size(recipe, corpus)
    flops = recipe.training.steps * update_flops(model, update_size(recipe, corpus, 1))
    assert flops == pytest.approx(9.5e17, rel=0.01)  # docs/paper.md
    assert flops < 3.3e18


def test_r_drop_and_activation_checkpointing_cost_passes():
    plain, dropped, checkpointed = (
        load_recipe("tiny", [*ONE_LAYER, *settings])
        for settings in ([], ["training.r_drop=1"], ["training.activation_checkpointing=true"])
    )
    flops = [
        update_flops(model_size(recipe, CORPUS), update_size(recipe, CORPUS, 1))
        for recipe in (plain, dropped, checkpointed)
    ]
    assert flops[1] == 2 * flops[0]
    assert flops[2] == pytest.approx(4 / 3 * flops[0])


@pytest.mark.parametrize(
    ("steps", "save", "validate", "saves", "validations"),
    [(10, 5, 5, 2, 2), (10, 4, 3, 6, 4), (7, 100, 100, 1, 1), (100_000, 1500, 2000, 100, 50)],
)
def test_checkpoints_and_validations_are_counted(steps, save, validate, saves, validations):
    changes = [f"training.save_every={save}", f"training.validate_every={validate}"]
    settings = load_recipe("base", changes).training
    expected = {step for step in range(1, steps + 1) if not step % save or not step % validate}
    assert checkpoint_count(settings, steps) == saves == len(expected | {steps})
    assert validation_count(settings, steps) == validations


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_checkpoints_have_the_size_of_their_tensors(optimizer):
    recipe = load_recipe("tiny", [*ONE_LAYER, f"training.optimizer={optimizer}"])
    size = recipe.tokenizer.vocabulary_size
    model = build_model(recipe.model, size, size)
    parameters = dict(model.named_parameters())
    optimizers = build_optimizers(parameters, recipe.training, model.layer_matrices())
    tensors = [*parameters.values(), *moments(optimizers, parameters).values()]
    expected = 4 * (sum(map(torch.numel, tensors)) + sum(map(torch.numel, parameters.values())))
    assert checkpoint_bytes(model_size(recipe, CORPUS)) == pytest.approx(expected, rel=1e-6)


def real_kept_bytes(recipe, rows):
    """The same count as on the meta device, with real tensors and the loss."""
    size = recipe.tokenizer.vocabulary_size
    objective = Objective(build_model(recipe.model, size, size), 0.1).train()
    tokens = torch.full((rows, 32), 3)
    is_real = torch.ones_like(tokens, dtype=torch.bool)
    kept = {}

    def count(tensor):
        base = tensor if tensor._base is None else tensor._base
        if not isinstance(base, torch.nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        objective(MicroBatch(tokens, is_real, tokens, tokens, is_real))
    return sum(kept.values())


def test_activations_are_counted_without_memory():
    recipe = load_recipe("tiny", ONE_LAYER)
    real = (real_kept_bytes(recipe, 64) - real_kept_bytes(recipe, 32)) / (32 * 32)
    assert activation_bytes(recipe) == pytest.approx(real, rel=0.1)


def test_activation_checkpointing_keeps_less():
    plain = activation_bytes(load_recipe("tiny", ONE_LAYER))
    settings = [*ONE_LAYER, "training.activation_checkpointing=true"]
    assert activation_bytes(load_recipe("tiny", settings)) < 0.7 * plain


@pytest.mark.slow
def test_fsdp_divides_the_state_and_a_small_gpu_gets_more_micro_batches():
    prices = read_prices()
    recipe = load_recipe("big", ONE_LAYER)
    ddp, fsdp = (
        rank_memory(
            model_size(load_recipe("big", [*ONE_LAYER, f"training.parallel={kind}"]), CORPUS),
            choose_machines(prices, "8xA100", 1, 0),
            257,
        )
        for kind in ("ddp", "fsdp")
    )
    assert fsdp.state < ddp.state / 2
    small = rank_memory(model_size(recipe, CORPUS), choose_machines(prices, "1xT4", 1, 0), 257)
    large = rank_memory(model_size(recipe, CORPUS), choose_machines(prices, "1xH100", 1, 0), 257)
    assert small.micro_batches >= large.micro_batches == 1
    assert small.largest_micro_batch <= large.largest_micro_batch == 25_000
    assert small.peak < 16e9
    assert small.micro_batch <= small.largest_micro_batch


def test_bfloat16_on_a_cpu_needs_memory_for_its_kernels():
    cores = choose_machines(read_prices(), "", 1, 0)

    def process_bytes(precision):
        recipe = load_recipe("small", [*ONE_LAYER, f"training.precision={precision}"])
        return rank_memory(model_size(recipe, CORPUS), cores, 257).process

    assert process_bytes("bfloat16") > process_bytes("float32") + 1e9


def test_a_corpus_that_is_not_prepared_needs_its_size(tmp_path):
    with pytest.raises(DataError, match="--pairs"):
        corpus_size(load_recipe("tiny"), tmp_path, 0, 0)
    size = corpus_size(load_recipe("tiny"), tmp_path, 100, 20)
    assert (size.source_tokens, size.longest, size.basis) == (2000, 257, "estimated")


def test_a_prepared_corpus_without_pairs_is_explained(tmp_path):
    (tmp_path / "manifest.json").write_text(Manifest(train=()).to_json())
    with pytest.raises(DataError, match="has no training pair"):
        corpus_size(load_recipe("tiny"), tmp_path, 0, 0)


@pytest.mark.slow
def test_updates_of_a_prepared_corpus_are_those_of_training(prepared_recipe):
    recipe, folder = load_recipe(prepared_recipe), prepared_recipe.parent / "prepared"
    corpus = corpus_size(recipe, folder, 0, 0)
    prepared = Prepared.open(folder)
    assert corpus.pairs == sum(prepared.rows)
    assert corpus.basis == "computed"
    update = update_size(recipe, corpus, 1)
    from dragoman.data.sampler import Sampler

    sampler = Sampler(prepared, recipe.seed, recipe.training.tokens_per_update)
    batches = [
        to_tensors(plan.read(), torch.device("cpu")) for plan in islice(sampler.batches(), 3)
    ]
    assert update.source_positions == pytest.approx(
        sum(batch.source.numel() for batch in batches) / 3, rel=0.2
    )
    assert update.target_tokens <= recipe.training.tokens_per_update


@pytest.mark.slow
def test_a_corpus_in_a_store_is_computed_too(prepared_recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    recipe, folder = load_recipe(prepared_recipe), prepared_recipe.parent / "prepared"
    here = corpus_size(recipe, folder, 0, 0)
    there = corpus_size(recipe, local_path(f"file://{folder}"), 0, 0)
    assert replace(there, prepared=None) == replace(here, prepared=None)
    assert update_size(recipe, there, 1) == update_size(recipe, here, 1)
    assert with_real_vocabulary(recipe, there) == with_real_vocabulary(recipe, here)
