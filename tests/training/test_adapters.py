"""Adapters: no change at first, the merged model is the trained one, and only they are trained."""

import pytest
import torch
from safetensors.torch import load_file

from dragoman.artifact import read_artifact
from dragoman.errors import RecipeError
from dragoman.inference.translator import Translator
from dragoman.recipe.files import load_recipe
from dragoman.training.adapters import ALPHA, Adapter, add_adapters, plain_weights
from dragoman.workflow.training import train
from support import digits
from support.small_models import EVERY_PART, sentences, small_model
from support.trainees import journal

RANK = 4


def adapters(model):
    return [module for module in model.modules() if isinstance(module, Adapter)]


def randomize(model):
    """Let every adapter change its matrix, as after training."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for adapter in adapters(model):
            adapter.b.normal_(std=0.3, generator=generator)


@pytest.mark.parametrize(("kind", "name"), EVERY_PART)
def test_a_zero_adapter_changes_no_bit_and_merging_changes_no_bit(kind, name):
    settings = {kind: name}
    model, merged, batch = small_model(**settings), small_model(**settings), sentences()
    before = model(*batch)
    names = set(model.state_dict())
    try:
        add_adapters(model, RANK, seed=1)
    except RecipeError:
        assert name == "bare", "only heads without matrices have nothing to adapt"
        return
    assert torch.equal(model(*batch), before)
    randomize(model)
    after = model(*batch)
    assert not torch.equal(after, before)
    weights = plain_weights(model)
    assert set(weights) == {key for key in names if key in dict(merged.named_parameters())}
    merged.load_state_dict(weights, strict=False)
    assert torch.equal(merged(*batch), after)


def test_the_change_is_the_equation():
    model = small_model()
    original = {name: value.clone() for name, value in model.named_parameters()}
    add_adapters(model, RANK, seed=1)
    randomize(model)
    weights = plain_weights(model)
    layer = model.encoder.layers[0].feed_forward.network.expand
    adapter = layer.parametrizations.weight[0]
    name = "encoder.layers.0.feed_forward.network.expand.weight"
    change = sum(torch.outer(adapter.b[:, row], adapter.a[row]).double() for row in range(RANK)) * (
        ALPHA / RANK
    )
    # float32: some units of the 24th bit of numbers around 1.
    torch.testing.assert_close(
        weights[name].double(), original[name].double() + change, rtol=0, atol=1e-5
    )
    assert torch.linalg.matrix_rank((weights[name] - original[name]).detach(), atol=1e-4) <= RANK


def test_every_matrix_of_attention_and_feed_forward_has_an_adapter_and_nothing_else_learns():
    model = small_model()
    matrices = len(model.layer_matrices())
    add_adapters(model, RANK, seed=1)
    assert len(adapters(model)) == matrices
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    assert len(trained) == 2 * matrices
    assert all(name.endswith((".a", ".b")) for name in trained)


def test_adapters_differ_from_each_other_and_depend_on_the_seed():
    first, again, other = small_model(), small_model(), small_model()
    for model, seed in ((first, 1), (again, 1), (other, 2)):
        add_adapters(model, RANK, seed)
    one, two = (adapter.a for adapter in adapters(first)[:2])
    assert not torch.equal(one, two)
    assert all(map(torch.equal, *([a.a for a in adapters(model)] for model in (first, again))))
    assert not torch.equal(one, adapters(other)[0].a)


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A model of reversed digits, after a few updates."""
    recipe = digits.write(tmp_path_factory.mktemp("parent"), training={"steps": 20})
    return train(recipe).folder


ADAPTATION = {"adaptation": {"method": "adapters", "rank": RANK}}


def adapted(parent, folder, steps):
    """Train adapters of the parent; the recipe is beside the parent's own."""
    recipe = digits.write_recipe(
        parent.parent,
        "adapters.yaml",
        training={
            "steps": steps,
            "init_from": str(parent),
            "folder": folder,
            "average_checkpoints": 1,
        },
        **ADAPTATION,
    )
    return train(recipe).folder


@pytest.mark.slow
def test_training_changes_matrices_only_and_the_export_translates_the_same(parent):
    folder = adapted(parent, "adapted", 12)
    before, after = (load_file(path / "model.safetensors") for path in (parent, folder))
    assert set(before) == set(after)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    model = read_artifact(parent).model()
    ids = {id(matrix) for matrix in model.layer_matrices()}
    assert changed == {name for name, value in model.named_parameters() if id(value) in ids}
    for name in changed:
        assert torch.linalg.matrix_rank(after[name] - before[name], atol=1e-4) <= RANK
    size = (parent / "model.safetensors").stat().st_size
    assert (folder / "model.safetensors").stat().st_size == size
    lines = ["1 2 3", "9 8 7 6", "5"]
    outputs = []
    for engine in ("pytorch", "ctranslate2"):
        with Translator.load(folder, engine=engine) as translator:
            outputs.append([output.text for output in translator.translate(lines)])
    assert outputs[0] == outputs[1]


@pytest.mark.slow
def test_a_resumed_run_with_adapters_is_bit_identical(parent):
    whole = adapted(parent, "whole", 12)
    adapted(parent, "resumed", 6)
    resumed = adapted(parent, "resumed", 12)
    hashes = [read_artifact(folder).model_hash for folder in (whole, resumed)]
    assert hashes[0] == hashes[1]
    losses = [
        [entry["loss"] for entry in journal(folder) if entry["kind"] == "progress"]
        for folder in (whole, resumed)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"training": {}}, "adaptation.method"),
        ({"training": {"init_from": "run", "ema_decay": 0.9}}, "training.ema_decay"),
        ({"training": {"init_from": "run", "parallel": "fsdp"}}, "training.parallel"),
    ],
)
def test_what_adapters_cannot_be_combined_with(tmp_path, settings, path):
    recipe = digits.write_recipe(tmp_path, **settings, **ADAPTATION)
    with pytest.raises(RecipeError) as error:
        load_recipe(recipe)
    assert [mistake.path for mistake in error.value.mistakes] == [path]
