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


def test_rooms_add_up():
    model = measure(load_recipe("tiny"), 8, 8)
    assert model.parameters == sum(room.parameters for room in model.rooms)
    assert model.flops == sum(room.flops for room in model.rooms)
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
