"""Warnings about settings that are known to learn badly: printed once, and never an error."""

import pytest

from dragoman.recipe.files import load_recipe, preset_names
from dragoman.recipe.weaknesses import known_weaknesses
from support.small_models import EVERY_PART


@pytest.mark.parametrize(
    "similarity", ["cosine", "{name: cosine, scale: 1}", "{name: cosine, scale: 0.5}"]
)
def test_a_cosine_without_a_scale_is_warned_of(similarity):
    (warning,) = known_weaknesses(load_recipe("tiny", [f"model.similarity={similarity}"]))
    assert warning.startswith("warning: model.similarity: cosine")
    advice = warning.rpartition("set ")[2]
    assert known_weaknesses(load_recipe("tiny", ["model.similarity=cosine", advice])) == []


def test_nothing_else_is_warned_of():
    recipes = [load_recipe(name) for name in preset_names()]
    recipes += [
        load_recipe("tiny", ["model.position=none", f"model.{kind}={name}"])
        for kind, name in EVERY_PART
        if name != "cosine"
    ]
    assert [warning for recipe in recipes for warning in known_weaknesses(recipe)] == []


def test_a_scale_that_is_no_number_is_left_to_the_part():
    assert (
        known_weaknesses(load_recipe("tiny", ["model.similarity={name: cosine, scale: x}"])) == []
    )
