"""A recipe that is written and read back is the same recipe."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import RecipeError
from dragoman.recipe import parts
from dragoman.recipe.files import dump_recipe, load_recipe
from dragoman.recipe.schema import ModelRecipe, Recipe

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def choices(kind):
    """A part of this kind with options that may be any text, as a recipe file allows."""
    options = st.dictionaries(TEXT.filter(lambda key: key not in ("name", "options")), TEXT)
    return st.builds(
        lambda name, options: {"name": name, **options}, st.sampled_from(parts.names(kind)), options
    )


def literals(field):
    return st.sampled_from(ModelRecipe.model_fields[field].annotation.__args__)


COUNTS = st.integers(1, 10**6)
RATES = st.floats(0, 1, exclude_max=True)
MODELS = st.fixed_dictionaries(
    {},
    optional={
        "width": COUNTS,
        "heads": COUNTS,
        "head_kind": choices("model.head_kind"),
        "similarity": choices("model.similarity"),
        "attention_kind": choices("model.attention_kind"),
        "position": choices("model.position"),
        "position_entry": literals("position_entry"),
        "position_depth": literals("position_depth"),
        "norm": literals("norm"),
        "feed_forward": literals("feed_forward"),
        "cross_attention": literals("cross_attention"),
        "tied_embeddings": literals("tied_embeddings"),
        "output_bias": st.booleans(),
        "dropout": RATES,
        "attention_dropout": RATES,
        "architecture": literals("architecture"),
        "recurrent": st.fixed_dictionaries(
            {},
            optional={
                "cell": st.sampled_from(["lstm", "gru"]),
                "bidirectional": st.booleans(),
                "attention": st.booleans(),
            },
        ),
        "convolutional": st.fixed_dictionaries({}, optional={"kernel_size": COUNTS}),
    },
)


@given(MODELS, st.booleans(), st.integers(0, 2**63))
def test_a_dumped_recipe_is_read_back_equal(model, is_shared, seed):
    written = {"model": model, "tokenizer": {"shared": is_shared}, "seed": seed}
    try:
        recipe = Recipe.model_validate(written)
    except RecipeError:  # Contradictory settings must be reported as a RecipeError.
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(dump_recipe(recipe), encoding="utf-8", newline="")
        assert load_recipe(path) == recipe


@given(st.text(max_size=200))
def test_any_text_is_a_recipe_or_raises_a_recipe_error(text):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            load_recipe(path)
        except RecipeError as error:
            assert error.mistakes


@pytest.mark.slow
@settings(max_examples=40)
@given(st.dictionaries(TEXT, st.recursive(TEXT, lambda inner: st.dictionaries(TEXT, inner))))
def test_any_settings_are_a_recipe_or_raise_a_recipe_error(any_settings):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(yaml.safe_dump({"model": any_settings}), encoding="utf-8")
        try:
            load_recipe(path)
        except RecipeError as error:
            assert all(mistake.what for mistake in error.mistakes)


def test_option_texts_that_yaml_would_convert_stay_as_written():
    options = {"name": "cosine", "a": "no", "b": "012", "c": "1e-3", "d": "", "e": "~", "f": "a: b"}
    recipe = Recipe.model_validate({"model": {"similarity": options}})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(dump_recipe(recipe), encoding="utf-8")
        assert load_recipe(path).model.similarity.options == {
            key: value for key, value in options.items() if key != "name"
        }
