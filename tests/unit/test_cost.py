"""Tests of `show --model`: the parameters and FLOPs of each module."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.model.build import build_model
from dragoman.model.cost import OTHER, measure
from dragoman.recipe.files import load_recipe, preset_names
from support.sets import first_quick
from support.small_models import EVERY_PART


def walk(module, path=""):
    """Yield every entry of the tree with its path."""
    here = f"{path}/{module.name}"
    yield here, module
    for child in module.children:
        yield from walk(child, here)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 32])
def test_the_flops_of_base_are_those_of_its_matrix_products(length):
    """Two FLOPs for each multiplication with its addition; n tokens on each side."""
    width, inner, layers, vocabulary, n = 512, 2048, 6, 37000, length
    feed_forward = 2 * 2 * width * inner
    projections = 2 * 4 * width * width
    attending = 2 * 2 * n * width  # Every token is compared with n tokens, and mixes n values.
    encoder = layers * n * (projections + attending + feed_forward)
    decoder = layers * n * (2 * (projections + attending) + feed_forward)
    model = measure(load_recipe("base"), n, n)
    assert model.flops == encoder + decoder + n * 2 * width * vocabulary


CELLS = {"lstm": 4, "gru": 3}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("attends", first_quick([True, False]))
@pytest.mark.parametrize("bidirectional", first_quick([True, False]))
def test_the_flops_of_a_recurrent_network_are_those_of_its_gates(cell, attends, bidirectional):
    """Each gate multiplies the input and the state, also inside PyTorch's fused kernel."""
    options = {"cell": cell, "attention": attends, "bidirectional": bidirectional}
    settings = [f"model.recurrent.{name}={value}" for name, value in options.items()]
    recipe = load_recipe("tiny", ["model.architecture=recurrent", *settings])
    width, vocabulary = recipe.model.width, recipe.tokenizer.vocabulary_size
    source, target, gates = 7, 5, CELLS[cell]
    half = width // 2
    bottom = 2 * half * (width + half) if bidirectional else width * 2 * width
    above = (recipe.model.encoder_layers - 1) * width * 2 * width
    encoder = source * gates * (bottom + above)
    wider = 3 * width if attends else 2 * width
    decoder = target * gates * width * (2 * width + (recipe.model.decoder_layers - 1) * wider)
    attending = target * (2 * source * width + 2 * width * width) if attends else 0
    expected = 2 * (encoder + decoder + attending + target * width * vocabulary)
    assert measure(recipe, source, target).flops == expected


def test_the_flops_of_a_convolutional_network_are_those_of_its_windows():
    kernel, source, target = 5, 7, 6
    settings = ["model.architecture=convolutional", f"model.convolutional.kernel_size={kernel}"]
    recipe = load_recipe("tiny", [*settings, "model.position=sinusoidal"])
    width, vocabulary = recipe.model.width, recipe.tokenizer.vocabulary_size
    window = kernel * width * 2 * width
    encoder = recipe.model.encoder_layers * source * window
    attending = 2 * width * width + 2 * source * width
    decoder = recipe.model.decoder_layers * target * (window + attending)
    expected = 2 * (encoder + decoder + target * width * vocabulary)
    assert measure(recipe, source, target).flops == expected


CASES = {
    **{f"preset {name}": (name, []) for name in preset_names()},
    **{
        f"{kind} {name}": ("tiny", ["model.position=none", f"model.{kind}={name}"])
        for kind, name in EVERY_PART
    },
    "post-norm": ("tiny", ["model.norm=post"]),
    "no feed-forward": ("tiny", ["model.feed_forward=none"]),
    "gated feed-forward": ("tiny", ["model.feed_forward=swiglu"]),
    "same layer": ("tiny", ["model.cross_attention=same_layer"]),
    "positions in every layer": (
        "tiny",
        ["model.position=learned", "model.position_depth=every_layer"],
    ),
    "projected": ("tiny", ["model.position=sinusoidal", "model.position_entry=projected"]),
    "untied": ("tiny", ["model.tied_embeddings=none", "model.output_bias=true"]),
    "recurrent": ("tiny", ["model.architecture=recurrent"]),
    "recurrent without attention": (
        "tiny",
        ["model.architecture=recurrent", "model.recurrent.attention=false"],
    ),
    "convolutional": (
        "tiny",
        ["model.architecture=convolutional", "model.position=sinusoidal"],
    ),
}


@pytest.mark.parametrize(("preset", "settings"), first_quick(CASES.values()), ids=list(CASES))
def test_children_add_up_to_their_parent_at_every_level(preset, settings):
    recipe, source_length, target_length = load_recipe(preset, settings), 8, 5
    model = measure(recipe, source_length, target_length)
    for path, module in walk(model):
        for cost in ("parameters", "flops"):
            assert getattr(module, cost) >= 0, (path, cost)
            if module.children:
                total = sum(getattr(child, cost) for child in module.children)
                assert getattr(module, cost) == total, (path, cost)
    assert (model.parameters, model.flops) == counted(recipe, source_length, target_length)


def counted(recipe, source_length, target_length):
    """The reference: PyTorch's counts for the whole model, which may use fused kernels."""
    size = recipe.tokenizer.vocabulary_size
    with torch.device("meta"):
        model = build_model(recipe.model, size, size).eval().requires_grad_(False)
        source = torch.zeros(1, source_length, dtype=torch.long)
        target = torch.zeros(1, target_length, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            model(source, torch.ones_like(source, dtype=torch.bool), target)
    return sum(weight.numel() for weight in model.parameters()), counter.get_total_flops()


def test_scores_are_costs_of_the_similarity_and_the_weighted_sum_is_other():
    """Also where a fused kernel would compute both at once."""
    recipe, length = load_recipe("tiny"), 8
    layers, width = recipe.model.encoder_layers, recipe.model.width
    entries = dict(walk(measure(recipe, length, length)))
    attention = "/model/encoder/layers 1–4/self_attention/attention"
    one_product = layers * 2 * length * length * width
    assert entries[attention].flops == 2 * one_product
    assert entries[f"{attention}/similarity"].flops == one_product
    assert entries[f"{attention}/{OTHER}"].flops == one_product


@pytest.mark.slow
def test_the_heads_have_the_costs_of_their_four_projections():
    """They are computed as one product, without calling the modules of the projections."""
    width, layers, length = 512, 6, 8
    entries = list(walk(measure(load_recipe("base"), length, length)))
    heads = [module for path, module in entries if path.endswith("attention/heads")]
    assert len(heads) == 3, "encoder, decoder, and cross-attention"
    for module in heads:
        assert module.parameters == layers * 4 * (width * width + width)
        assert module.flops == layers * length * 2 * 4 * width * width


@pytest.mark.slow
def test_the_remainder_is_listed_as_other():
    """The layer norms, which PyTorch provides, are not listed by name."""
    entries = dict(walk(measure(load_recipe("base", ["model.norm=pre"]), 8, 8)))
    assert entries[f"/model/encoder/{OTHER}"].parameters == 2 * 512
    assert entries[f"/model/encoder/{OTHER}"].flops == 0


@pytest.mark.slow
def test_equal_neighbors_are_shown_as_one():
    model = measure(load_recipe("tiny"), 8, 8)
    encoder = next(child for child in model.children if child.name == "encoder")
    layers = next(child for child in encoder.children if child.name.startswith("layers"))
    assert (layers.name, layers.count) == ("layers 1–4", 4)
    assert encoder.flops == layers.flops > 0


def test_every_part_is_listed():
    settings = ["model.similarity=additive", "model.attention_kind=local", "model.position=shaw"]
    kinds = {module.kind for _, module in walk(measure(load_recipe("tiny", settings), 8, 8))}
    assert {"Standard", "Additive", "Local", "Shaw"} <= kinds


@pytest.mark.slow
def test_a_position_in_every_layer_is_shown_once():
    settings = ["model.position=learned", "model.position_depth=every_layer"]
    names = [name for name, _ in walk(measure(load_recipe("tiny", settings), 8, 8))]
    assert "/model/encoder/positions 1–4" in names
