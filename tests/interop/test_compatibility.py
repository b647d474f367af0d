"""The compatibility table is complete, and the documentation page is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.interop.compatibility import ctranslate2, huggingface, table
from dragoman.recipe import parts
from dragoman.recipe.schema import DecodingRecipe, ModelRecipe, Recipe
from support.small_models import BASELINES, EVERY_PART

ROOT = Path(__file__).parents[2]
PROGRAMS = {"ctranslate2": ctranslate2.obstacles, "huggingface": huggingface.obstacles}


def test_the_page_is_up_to_date():
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert page == table.markdown(), (
        "type: python -m dragoman.interop.compatibility.table > docs/compatibility.md"
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
        # Settings of the baselines, which no other program runs.
        baselines = {f"{section}.{name}" for name in ("recurrent", "convolutional")}
        every = {f"{section}.{name}" for name in fields.model_fields}
        assert every - numbers - baselines <= settings


def test_a_row_changes_only_its_setting():
    default = table.changed("model.norm", "post")
    for path, value in table.choices():
        section, setting = path.split(".")
        recipe = table.changed(path, value)
        chosen = getattr(getattr(recipe, section), setting)
        assert str(getattr(chosen, "name", chosen)).lower() == value
        back = getattr(recipe, section).model_copy(
            update={setting: getattr(getattr(default, section), setting)}
        )
        assert recipe.model_copy(update={section: back}) == default


def test_the_default_recipe_is_compatible_with_all_programs():
    assert table.compatibility(Recipe()) == {"ctranslate2": [], "huggingface": []}
    assert table.summary(Recipe()) == [
        "compatible with CTranslate2: yes",
        "compatible with Hugging Face: yes",
    ]


def test_all_reasons_are_listed_at_once():
    recipe = Recipe.model_validate({"model": {"similarity": "additive", "attention_kind": "hard"}})
    line = table.summary(recipe)[0]
    assert line.startswith(
        "compatible with CTranslate2: no, because model.similarity: CTranslate2 "
    )
    assert "; model.attention_kind: CTranslate2 " in line


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("settings", BASELINES.values(), ids=list(BASELINES))
def test_the_baselines_run_in_no_other_program(program, settings):
    recipe = Recipe.model_validate({"model": settings})
    assert [mistake.path for mistake in PROGRAMS[program](recipe)] == ["model.architecture"]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ["head_kind", "similarity", "attention_kind", "position"])
def test_a_foreign_part_runs_in_no_other_program(program, kind):
    recipe = Recipe.model_validate({"model": {kind: "my_parts.gaussian"}})
    paths = [mistake.path for mistake in PROGRAMS[program](recipe)]
    assert paths == [f"model.{kind}"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_new_part_is_not_promised_before_it_was_tested(program, monkeypatch):
    monkeypatch.setattr(parts, "names", lambda kind: ["tomorrow"])
    for kind in ("head_kind", "similarity", "attention_kind", "position"):
        recipe = Recipe.model_validate({"model": {kind: "tomorrow"}})
        assert f"model.{kind}" in [mistake.path for mistake in PROGRAMS[program](recipe)]


@pytest.mark.parametrize("module", ["folder", "compatibility.table"])
def test_the_table_imports_no_heavy_library(module):
    """`dragoman show` and `dragoman train` use it."""
    code = (
        f"import sys, dragoman.interop.{module}\n"
        "print({'torch', 'numpy', 'ctranslate2', 'transformers'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
