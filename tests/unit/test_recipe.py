"""A recipe is frozen and strict; its defaults are the base model of the paper."""

import pydantic
import pytest

from dragoman.errors import RecipeError
from dragoman.interop.compatibility.ctranslate2 import obstacles
from dragoman.recipe.files import load_recipe
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import ModelRecipe, Recipe, Section


def test_the_defaults_are_the_base_model():
    decoding = Recipe().decoding
    assert Recipe() == load_recipe("base").model_copy(update={"decoding": decoding})


@pytest.mark.parametrize("preset", ["base", "big"])
def test_the_models_of_the_paper_decode_as_in_the_paper(preset):
    """Section 6.1: beam 4, the length penalty of GNMT with α = 0.6, 50 tokens beyond the input."""
    decoding = load_recipe(preset).decoding
    assert (decoding.search, decoding.beam_size) == ("beam", 4)
    assert (decoding.length_normalization, decoding.length_penalty) == ("gnmt", 0.6)
    assert decoding.max_extra_tokens == 50
    assert decoding.coverage_penalty == 0


def test_ctranslate2_runs_the_base_model_with_the_other_normalization():
    """As the comment in the preset says."""
    assert [mistake.path for mistake in obstacles(load_recipe("base"))] == [
        "decoding.length_normalization"
    ]
    settings = ["decoding.length_normalization=power", "decoding.length_penalty=1.0"]
    assert obstacles(load_recipe("base", settings)) == []


def test_a_recipe_cannot_be_changed():
    with pytest.raises(pydantic.ValidationError):
        Recipe().model.width = 3


def test_an_unknown_setting_is_refused_in_python_too():
    with pytest.raises(pydantic.ValidationError):
        ModelRecipe(widht=3)


def test_every_setting_has_a_description():
    for section in (Recipe(), *(value for _, value in Recipe() if isinstance(value, Section))):
        for name, setting in type(section).model_fields.items():
            is_section = isinstance(getattr(section, name), pydantic.BaseModel)
            assert setting.description or is_section, name


def test_contradictions_are_reported_together():
    with pytest.raises(RecipeError) as caught:
        Recipe.model_validate(
            {
                "tokenizer": {"shared": False},
                "model": {
                    "decoder_layers": 2,
                    "cross_attention": "same_layer",
                    "position_entry": "concatenated",
                    "position_features": 512,
                },
            }
        )
    assert [mistake.path for mistake in caught.value.mistakes] == [
        "model.cross_attention",
        "model.position_features",
        "model.tied_embeddings",
    ]


def test_a_part_is_a_name_or_a_name_with_options():
    assert ModelRecipe(similarity="cosine").similarity == Choice(name="cosine")
    with_option = ModelRecipe(similarity={"name": "cosine", "scale": 2.5, "loud": True})
    assert with_option.similarity.options == {"scale": "2.5", "loud": "true"}
    assert with_option.model_dump()["similarity"] == {"name": "cosine", "scale": 2.5, "loud": True}


@pytest.mark.parametrize("name", ["cosin", "", "../cosine", "a..b", "cos ine", ".cosine"])
def test_an_unknown_part_name_is_refused_without_an_import(name):
    with pytest.raises(pydantic.ValidationError):
        ModelRecipe(similarity=name)
