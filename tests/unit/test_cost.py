"""Tests of `show --model`: the parameters and FLOPs of each module."""

import pytest

from dragoman.model.cost import OTHER, measure
from dragoman.recipe.files import load_recipe
from support.sets import first_quick


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
    "transformer": ["model.architecture=transformer"],
    "pre-norm": ["model.norm=pre"],
    "shaw": ["model.position=shaw"],
    "learned": ["model.position=learned", "model.position_depth=every_layer"],
    "narrow heads": ["model.head_kind=narrow"],
    "wide heads": ["model.head_kind=wide"],
    "additive": ["model.similarity=additive"],
    "untied": ["model.tied_embeddings=none"],
    "recurrent": ["model.architecture=recurrent"],
    "recurrent without attention": [
        "model.architecture=recurrent",
        "model.recurrent.attention=false",
    ],
    "convolutional": ["model.architecture=convolutional"],
}


@pytest.mark.parametrize("settings", first_quick(CASES.values()), ids=list(CASES))
def test_children_add_up_to_their_parent_at_every_level(settings):
    model = measure(load_recipe("base", settings), 8, 8)
    for path, module in walk(model):
        if not module.children:
            continue
        for cost in ("parameters", "flops"):
            total = sum(child.count * getattr(child, cost) for child in module.children)
            assert getattr(module, cost) == total, (path, cost)
            assert all(getattr(child, cost) >= 0 for child in module.children), (path, cost)


@pytest.mark.slow
def test_the_heads_have_the_costs_of_their_four_projections():
    """They are computed as one product, without calling the modules of the projections."""
    width, length = 512, 8
    entries = list(walk(measure(load_recipe("base"), length, length)))
    heads = [module for path, module in entries if path.endswith("attention/heads")]
    assert len(heads) == 3, "encoder, decoder, and cross-attention"
    for module in heads:
        assert module.parameters == 4 * (width * width + width)
        assert module.flops == length * 2 * 4 * width * width


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
    assert encoder.flops == layers.count * layers.flops


def test_every_part_is_listed():
    settings = ["model.similarity=additive", "model.attention_kind=local", "model.position=shaw"]
    kinds = {module.kind for _, module in walk(measure(load_recipe("tiny", settings), 8, 8))}
    assert {"Standard", "Additive", "Local", "Shaw"} <= kinds


@pytest.mark.slow
def test_a_position_in_every_layer_is_shown_once():
    settings = ["model.position=learned", "model.position_depth=every_layer"]
    names = [name for name, _ in walk(measure(load_recipe("tiny", settings), 8, 8))]
    assert "/model/encoder/positions 1–4" in names
