"""The JSON Schema of recipes accepts what Dragoman accepts."""

import jsonschema
import pytest
import yaml

from dragoman.recipe.files import (
    SCHEMA_FILE,
    dump_recipe,
    load_recipe,
    preset_names,
    recipe_schema,
    schema_line,
    write_schema,
)
from dragoman.recipe.schema import Recipe

SCHEMA = jsonschema.Draft202012Validator(recipe_schema())


@pytest.mark.parametrize("name", preset_names())
def test_a_written_preset_is_valid(name):
    SCHEMA.validate(yaml.safe_load(dump_recipe(load_recipe(name))))


@pytest.mark.parametrize(
    "text",
    [
        "preset: tiny",
        "model: {similarity: my_parts.gaussian}",
        "model: {similarity: {name: cosine, scale: 2.0}}",
        "corpus: {train: [{files: [a.en, a.de]}], filters: [unicode, {name: length, most: 9}]}",
        "training: {compile: true, micro_batch: 4096}",
        "training: {compile: auto, micro_batch: auto}",
    ],
)
def test_valid_settings_are_accepted(text):
    SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text", ["preset: tinny", "model: {similarity: cosin}", "model: {widht: 3}", "seed: -1"]
)
def test_invalid_settings_are_refused(text):
    assert not SCHEMA.is_valid(yaml.safe_load(text))


def test_every_setting_has_a_description():
    for section in Recipe.model_json_schema()["$defs"].values():
        for name, setting in section["properties"].items():
            assert "description" in setting, name


def test_the_schema_file_is_written_beside_the_recipe(tmp_path):
    assert write_schema(tmp_path) == tmp_path / SCHEMA_FILE
    (tmp_path / "recipe.yaml").write_text(f"{schema_line()}\nseed: 3\n", encoding="utf-8")
    assert load_recipe(tmp_path / "recipe.yaml").seed == 3
    assert schema_line() == "# yaml-language-server: $schema=recipe.schema.json"
