"""Do the published recipes say what docs/results.md says of them?"""

import json
from pathlib import Path

import pytest

from dragoman.recipe_file import load_recipe
from shared_data import shared_data

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


def names(path):
    corpus = load_recipe(path).corpus
    return [
        name for each in (*corpus.train, *corpus.development, *corpus.test) for name in each.files
    ]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_can_be_read_and_its_text_is_there(path):
    recipe = load_recipe(path)
    assert recipe.corpus.folder == f"{path.stem}/prepared"
    assert recipe.training.folder == f"{path.stem}/run"
    made = {each.stem for each in RECIPES}  # By models, as docs/results.md says.
    for name in names(path):
        if name.partition("/")[0] in made:
            continue
        assert name.startswith("data/")
        assert (shared_data() / name.removeprefix("data/")).is_file(), name


FRENCH = {"German": "French", "en-de": "en-fr", "de-en": "fr-en", ".de.gz": ".fr.gz"} | {
    "target: de": "target: fr",
    "source: de": "source: fr",
}


def test_german_and_french_have_one_template():
    templates = [
        each for each in RECIPES if each.stem.startswith(("multi30k-en-de", "multi30k-de"))
    ]
    assert templates
    for german in templates:
        name, text = german.name, german.read_text(encoding="utf-8")
        for told, instead in FRENCH.items():
            name, text = name.replace(told, instead), text.replace(told, instead)
        assert text == german.with_name(name).read_text(encoding="utf-8")


def test_every_recipe_that_has_figures_is_there():
    figures = json.loads((ROOT / "docs" / "results" / "figures.json").read_text(encoding="utf-8"))
    assert figures
    for folder in figures:
        assert (ROOT / "recipes" / f"{folder.partition('/')[0]}.yaml").is_file(), folder
