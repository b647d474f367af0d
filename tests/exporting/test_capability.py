"""Does the table of what is served where say all of it, and the same as the page?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import part
from dragoman.exporting.capability import ctranslate2, huggingface, table
from dragoman.recipe import DecodingRecipe, ModelRecipe, Recipe
from small_models import EVERY_PART, RIVALS

ROOT = Path(__file__).parents[2]
SERVERS = {"ctranslate2": ctranslate2.obstacles, "huggingface": huggingface.obstacles}


def test_the_page_is_what_the_table_says():
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    assert page == table.markdown(), (
        "type: python -m dragoman.exporting.capability.table > docs/serving.md"
    )


def test_every_part_and_every_choice_has_a_row():
    rows = list(table.choices())
    assert len(rows) == len(set(rows))
    assert {(f"model.{kind}", name) for kind, name in EVERY_PART} <= set(rows)
    settings = {path for path, _ in rows}
    for section, fields in (("model", ModelRecipe), ("decoding", DecodingRecipe)):
        numbers = {
            f"{section}.{name}"
            for name, field in fields.model_fields.items()
            if field.annotation in (int, float)
        }
        # Settings of a network that nobody else serves.
        rivals = {f"{section}.{name}" for name in ("recurrent", "convolutional")}
        every = {f"{section}.{name}" for name in fields.model_fields}
        assert every - numbers - rivals <= settings


def test_a_row_changes_its_setting_alone():
    usual = table.changed("model.norm", "post")
    for path, value in table.choices():
        section, setting = path.split(".")
        recipe = table.changed(path, value)
        own = getattr(getattr(recipe, section), setting)
        assert str(getattr(own, "name", own)).lower() == value
        back = getattr(recipe, section).model_copy(
            update={setting: getattr(getattr(usual, section), setting)}
        )
        assert recipe.model_copy(update={section: back}) == usual


def test_the_usual_recipe_is_served_by_all():
    assert table.served(Recipe()) == {"ctranslate2": [], "huggingface": []}
    assert table.summary(Recipe()) == [
        "served by CTranslate2: yes",
        "served by Hugging Face: yes",
    ]


def test_a_recipe_that_is_not_served_is_told_all_reasons_at_once():
    recipe = Recipe.model_validate({"model": {"similarity": "additive", "reach": "hard"}})
    line = table.summary(recipe)[0]
    assert line.startswith("served by CTranslate2: no, because model.similarity: CTranslate2 ")
    assert "; model.reach: CTranslate2 " in line


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("settings", RIVALS.values(), ids=list(RIVALS))
def test_the_rivals_are_served_by_nobody_else(server, settings):
    recipe = Recipe.model_validate({"model": settings})
    assert [mistake.path for mistake in SERVERS[server](recipe)] == ["model.architecture"]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", ["heads", "similarity", "reach", "position"])
def test_a_part_of_ones_own_is_served_by_nobody_else(server, kind):
    recipe = Recipe.model_validate({"model": {kind: "lesson.gaussian"}})
    paths = [mistake.path for mistake in SERVERS[server](recipe)]
    assert paths == [f"model.{kind}"]


@pytest.mark.parametrize("server", SERVERS)
def test_a_new_part_is_not_promised_before_it_was_tried(server, monkeypatch):
    monkeypatch.setattr(part, "names", lambda kind: ["tomorrow"])
    for kind in ("heads", "similarity", "reach", "position"):
        recipe = Recipe.model_validate({"model": {kind: "tomorrow"}})
        assert f"model.{kind}" in [mistake.path for mistake in SERVERS[server](recipe)]


@pytest.mark.parametrize("module", ["folder", "capability.table"])
def test_asking_loads_nothing_heavy(module):
    """It is asked by `dragoman show`, and before training."""
    code = (
        f"import sys, dragoman.exporting.{module}\n"
        "print({'torch', 'numpy', 'ctranslate2', 'transformers'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
