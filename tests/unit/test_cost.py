"""Does `show --model` say what a model really costs?"""

import pytest

from dragoman.model.cost import measure
from dragoman.recipe_file import load_recipe


def rooms_of(room, path=""):
    here = f"{path}/{room.name}"
    yield here, room
    for inner in room.rooms:
        yield from rooms_of(inner, here)


@pytest.mark.parametrize("length", [1, 32])
def test_the_flops_of_base_are_those_of_its_matrix_products(length):
    """Two for each multiplication with its addition; n tokens on each side."""
    width, inner, layers, vocabulary, n = 512, 2048, 6, 37000, length
    feed_forward = 2 * 2 * width * inner
    projections = 2 * 4 * width * width
    looking = 2 * 2 * n * width  # every token compares with n, and mixes n
    encoder = layers * n * (projections + looking + feed_forward)
    decoder = layers * n * (2 * (projections + looking) + feed_forward)
    room = measure(load_recipe("base"), n, n)
    assert room.flops == encoder + decoder + n * 2 * width * vocabulary


CELLS = {"lstm": 4, "gru": 3}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("attends", [True, False])
@pytest.mark.parametrize("both_ways", [True, False])
def test_the_flops_of_a_recurrent_network_are_those_of_its_gates(cell, attends, both_ways):
    """Each gate multiplies what comes in and the state; a kernel that does both hides neither."""
    own = {"cell": cell, "attends": attends, "both_ways": both_ways}
    settings = [f"model.recurrent.{name}={value}" for name, value in own.items()]
    recipe = load_recipe("tiny", ["model.architecture=recurrent", *settings])
    width, vocabulary = recipe.model.width, recipe.tokenizer.vocabulary_size
    source, target, gates = 7, 5, CELLS[cell]
    half = width // 2
    bottom = 2 * half * (width + half) if both_ways else width * 2 * width
    above = (recipe.model.encoder_layers - 1) * width * 2 * width
    encoder = source * gates * (bottom + above)
    wider = 3 * width if attends else 2 * width
    decoder = target * gates * width * (2 * width + (recipe.model.decoder_layers - 1) * wider)
    looking = target * (2 * source * width + 2 * width * width) if attends else 0
    expected = 2 * (encoder + decoder + looking + target * width * vocabulary)
    assert measure(recipe, source, target).flops == expected


def test_the_flops_of_a_convolutional_network_are_those_of_its_windows():
    kernel, source, target = 5, 7, 6
    settings = ["model.architecture=convolutional", f"model.convolutional.kernel={kernel}"]
    recipe = load_recipe("tiny", [*settings, "model.position=sinusoidal"])
    width, vocabulary = recipe.model.width, recipe.tokenizer.vocabulary_size
    window = kernel * width * 2 * width
    encoder = recipe.model.encoder_layers * source * window
    looking = 2 * width * width + 2 * source * width
    decoder = recipe.model.decoder_layers * target * (window + looking)
    expected = 2 * (encoder + decoder + target * width * vocabulary)
    assert measure(recipe, source, target).flops == expected


@pytest.mark.parametrize("architecture", ["transformer", "recurrent", "convolutional"])
def test_rooms_add_up(architecture):
    settings = [f"model.architecture={architecture}", "model.position=sinusoidal"]
    model = measure(load_recipe("tiny", settings), 8, 8)
    assert model.parameters == sum(room.parameters for room in model.rooms)
    assert model.flops == sum(room.flops for room in model.rooms)
    encoder = next(room for room in model.rooms if room.name == "encoder")
    assert encoder.flops == sum(room.count * room.flops for room in encoder.rooms)


def test_neighbours_that_are_the_same_are_shown_as_one():
    model = measure(load_recipe("tiny"), 8, 8)
    encoder = next(room for room in model.rooms if room.name == "encoder")
    layers = encoder.rooms[-1]
    assert (layers.name, layers.count) == ("layers 1–4", 4)
    assert encoder.flops == layers.count * layers.flops


def test_every_part_has_its_room():
    settings = ["model.similarity=additive", "model.reach=local", "model.position=shaw"]
    kinds = {room.kind for _, room in rooms_of(measure(load_recipe("tiny", settings), 8, 8))}
    assert {"Standard", "Additive", "Local", "Shaw"} <= kinds


def test_a_position_at_every_layer_is_shown_once_for_all():
    settings = ["model.position=learned", "model.position_depth=every_layer"]
    names = [name for name, _ in rooms_of(measure(load_recipe("tiny", settings), 8, 8))]
    assert "/model/encoder/positions 1–4" in names
