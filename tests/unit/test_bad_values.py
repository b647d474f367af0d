"""Any value of any setting gives a recipe or a `RecipeError` with the path of the setting."""

import pytest
from pydantic import BaseModel

from dragoman.errors import RecipeError
from dragoman.recipe.files import load_recipe
from dragoman.recipe.parts import Choice
from dragoman.recipe.schema import Recipe
from support.sets import first_quick

BAD_VALUES = [
    "", "foo", "-1", "0", "1.5", "1e999", "nan", "inf", "true", "~", "[]", "[a, [b]]", "{}",
    "{name: foo, x: {y: 1}}", "{name: [a]}", "{options: {a: [1]}, name: cosine}", "'", "9" * 5000,
    "a.b..c", "\ud800", "{foo: bar}",
]  # fmt: skip


def paths_of(section, prefix=""):
    for name in type(section).model_fields:
        value, path = getattr(section, name), f"{prefix}{name}"
        yield path
        if isinstance(value, BaseModel) and not isinstance(value, Choice):
            yield from paths_of(value, f"{path}.")


PATHS = [*paths_of(Recipe()), "corpus.train.0", "model.similarity.name", "preset", "foo.bar"]


@pytest.mark.parametrize("path", first_quick(PATHS, 20))
def test_a_bad_value_is_a_recipe_or_a_recipe_error(path):
    for value in BAD_VALUES:
        try:
            load_recipe(Recipe(), [f"{path}={value}"])
        except RecipeError as error:
            assert str(error)
            for mistake in error.mistakes:
                related = mistake.path.startswith(path) or path.startswith(mistake.path)
                # A valid value can contradict another setting, which is then named.
                assert related or "tied" in mistake.path or "features" in mistake.path, value
                assert mistake.what.isprintable()


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("training.micro_batch=foo", "found 'foo', expected auto, or a whole number"),
        ("training.micro_batch=0", "found '0', expected auto, or more than 0"),
        ("training.compile=maybe", "found 'maybe', expected auto, or true or false"),
    ],
)
def test_a_bad_value_of_a_union_is_one_mistake(override, what):
    with pytest.raises(RecipeError) as caught:
        load_recipe("base", [override])
    (mistake,) = caught.value.mistakes
    assert (mistake.path, mistake.what) == (override.partition("=")[0], what)
    assert mistake.where == "command line"
