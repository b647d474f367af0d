"""Is a recipe that was written and read again the same recipe?"""

from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import part
from dragoman.errors import RecipeError
from dragoman.recipe import ModelRecipe, Recipe
from dragoman.recipe_file import dump_recipe, load_recipe

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def choices(kind):
    """A part of this kind with options that may be any text, as a recipe file allows."""
    options = st.dictionaries(TEXT.filter(lambda key: key not in ("name", "options")), TEXT)
    return st.builds(
        lambda name, given: {"name": name, **given}, st.sampled_from(part.names(kind)), options
    )


def literals(field):
    return st.sampled_from(ModelRecipe.model_fields[field].annotation.__args__)


COUNTS = st.integers(1, 10**6)
RATES = st.floats(0, 1, exclude_max=True)
MODELS = st.fixed_dictionaries(
    {},
    optional={
        "width": COUNTS,
        "head_count": COUNTS,
        "heads": choices("model.heads"),
        "similarity": choices("model.similarity"),
        "reach": choices("model.reach"),
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
                "both_ways": st.booleans(),
                "attends": st.booleans(),
            },
        ),
        "convolutional": st.fixed_dictionaries({}, optional={"kernel": COUNTS}),
    },
)


@given(MODELS, st.booleans(), st.integers(0, 2**63))
def test_load_of_dump_is_the_same(model, is_shared, seed):
    written = {"model": model, "tokenizer": {"shared": is_shared}, "seed": seed}
    try:
        recipe = Recipe.model_validate(written)
    except RecipeError:  # A contradiction is no recipe; it must have been told as one.
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(dump_recipe(recipe), encoding="utf-8", newline="")
        assert load_recipe(path) == recipe


@given(st.text(max_size=200))
def test_any_text_is_a_recipe_or_a_recipe_error(text):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            load_recipe(path)
        except RecipeError as error:
            assert error.mistakes


@settings(max_examples=40)
@given(st.dictionaries(TEXT, st.recursive(TEXT, lambda inner: st.dictionaries(TEXT, inner))))
def test_any_settings_are_a_recipe_or_told(given_settings):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(yaml.safe_dump({"model": given_settings}), encoding="utf-8")
        try:
            load_recipe(path)
        except RecipeError as error:
            assert all(mistake.what for mistake in error.mistakes)


def test_options_survive_that_yaml_would_bend():
    bent = {"name": "cosine", "a": "no", "b": "012", "c": "1e-3", "d": "", "e": "~", "f": "a: b"}
    recipe = Recipe.model_validate({"model": {"similarity": bent}})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        path.write_text(dump_recipe(recipe), encoding="utf-8")
        assert load_recipe(path).model.similarity.options == {
            key: value for key, value in bent.items() if key != "name"
        }
