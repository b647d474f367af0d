"""A model folder is read as it was written, and damage is reported."""

import json

import pytest
import torch

from dragoman.artifact import (
    begin_artifact,
    finish_artifact,
    read_artifact,
    tokenizer_hashes,
)
from dragoman.errors import ArtifactError
from support.small_models import small_recipe

WEIGHTS = {"b": torch.arange(6.0).view(2, 3), "a": torch.tensor(0.1)}
FILES = ["model.safetensors", "recipe.yaml", "tokenizer/source/words.json", "tokenizer/target/x/y"]


@pytest.fixture
def tokenizer(tmp_path):
    folder = tmp_path / "prepared" / "tokenizer"
    for name in ("source/words.json", "target/x/y"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def folder(tmp_path, tokenizer):
    path = tmp_path / "run"
    begin_artifact(path, small_recipe(), tokenizer)
    finish_artifact(path, WEIGHTS)
    return path


def error_of(folder):
    with pytest.raises(ArtifactError) as caught:
        read_artifact(folder)
    return str(caught.value)


def test_a_model_folder_is_read_as_written(folder, tokenizer):
    artifact = read_artifact(folder)
    weights = artifact.weights()
    assert {name: weight.tolist() for name, weight in weights.items()} == {
        name: weight.tolist() for name, weight in WEIGHTS.items()
    }
    assert artifact.recipe == small_recipe()
    assert sorted(artifact.hashes) == FILES
    assert tokenizer_hashes(artifact.tokenizer) == tokenizer_hashes(tokenizer)


def test_weights_that_are_views_are_written(folder):
    finish_artifact(folder, {"transposed": WEIGHTS["b"].T})
    assert read_artifact(folder).weights()["transposed"].equal(WEIGHTS["b"].T)


def test_other_files_in_the_folder_do_not_matter(folder):
    (folder / "card.json").write_text("{}")
    (folder / "checkpoints").mkdir()
    read_artifact(folder)


REPAIR = "copy the folder again from the original, or train again in another training.folder"


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).unlink()  # Tokenizer files can be hard links to those of the corpus.
    (folder / name).write_bytes(content)
    assert error_of(folder) == (
        f"the model in {str(folder)!r} is damaged: {name} is not what was written; {REPAIR}"
    )


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert error_of(folder) == (
        f"the model in {str(folder)!r} is damaged: {name} is missing; {REPAIR}"
    )


def test_all_damaged_files_are_reported_at_once(folder):
    for name in FILES[:2]:
        (folder / name).unlink()
    (folder / FILES[2]).write_bytes(b"")
    assert error_of(folder).endswith(
        "model.safetensors is missing; recipe.yaml is missing; "
        f"tokenizer/source/words.json is not what was written; {REPAIR}"
    )


def test_an_unfinished_run_is_reported(tmp_path, tokenizer):
    begin_artifact(tmp_path / "run", small_recipe(), tokenizer)
    assert "is not finished; finish it with the same command: dragoman train RECIPE" in error_of(
        tmp_path / "run"
    )


def test_another_format_is_reported(folder):
    path = folder / "format.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 7}))
    assert f"{str(folder)!r} has format 7, expected 1; use the version" in error_of(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "sha256": 3}']
)
def test_an_unreadable_format_file_is_reported(folder, text):
    (folder / "format.json").write_text(text)
    assert f"format.json of {str(folder)!r} cannot be read; copy" in error_of(folder)


def test_a_missing_folder_is_reported(tmp_path):
    assert error_of(tmp_path / "nowhere") == (
        f"there is no folder {str(tmp_path / 'nowhere')!r}; expected a folder that "
        "`dragoman train` wrote"
    )
    (tmp_path / "file").write_text("")
    assert "there is no folder" in error_of(tmp_path / "file")


def test_a_recipe_of_another_version_is_reported(folder):
    """Its hash is right, but it has a setting that this version does not know."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "flavor: sweet\n")
    finish_artifact(folder, WEIGHTS)
    error = error_of(folder)
    assert f"the recipe of {str(folder)!r} cannot be read" in error
    assert "flavor" in error
