"""Is a model folder what was written, or does it say what is wrong?"""

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
from small_models import small_recipe

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


def complaint(folder):
    with pytest.raises(ArtifactError) as caught:
        read_artifact(folder)
    return str(caught.value)


def test_what_was_written_comes_back(folder, tokenizer):
    artifact = read_artifact(folder)
    weights = artifact.weights()
    assert {name: each.tolist() for name, each in weights.items()} == {
        name: each.tolist() for name, each in WEIGHTS.items()
    }
    assert artifact.recipe == small_recipe()
    assert sorted(artifact.hashes) == FILES
    assert tokenizer_hashes(artifact.tokenizer) == tokenizer_hashes(tokenizer)


def test_weights_that_are_views_are_written_too(folder):
    finish_artifact(folder, {"turned": WEIGHTS["b"].T})
    assert read_artifact(folder).weights()["turned"].equal(WEIGHTS["b"].T)


def test_other_files_beside_it_do_not_matter(folder):
    (folder / "card.json").write_text("{}")
    (folder / "checkpoints").mkdir()
    read_artifact(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).unlink()  # The tokenizer's may be links to the corpus's own.
    (folder / name).write_bytes(content)
    assert complaint(folder) == (
        f"the model in {str(folder)!r} is damaged: {name} is not what was written"
    )


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert complaint(folder) == f"the model in {str(folder)!r} is damaged: {name} is missing"


def test_all_damages_are_told_at_once(folder):
    for name in FILES[:2]:
        (folder / name).unlink()
    (folder / FILES[2]).write_bytes(b"")
    assert complaint(folder).endswith(
        "model.safetensors is missing; recipe.yaml is missing; "
        "tokenizer/source/words.json is not what was written"
    )


def test_a_run_that_is_not_finished_is_told(tmp_path, tokenizer):
    begin_artifact(tmp_path / "run", small_recipe(), tokenizer)
    assert "its training was not finished; type: dragoman train RECIPE" in complaint(
        tmp_path / "run"
    )


def test_another_format_is_told(folder):
    path = folder / "format.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 7}))
    assert complaint(folder) == f"{str(folder)!r} has format 7, expected 1"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "sha256": 3}']
)
def test_a_format_file_that_says_nothing_is_told(folder, text):
    (folder / "format.json").write_text(text)
    assert complaint(folder) == f"format.json of {str(folder)!r} cannot be read"


def test_no_folder_is_told(tmp_path):
    assert complaint(tmp_path / "nowhere") == (
        f"there is no folder {str(tmp_path / 'nowhere')!r}; expected a run"
    )
    (tmp_path / "file").write_text("")
    assert "there is no folder" in complaint(tmp_path / "file")


def test_a_recipe_of_another_version_is_told(folder):
    """Its hash is right, but it holds a setting that this version does not know."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "flavour: sweet\n")
    finish_artifact(folder, WEIGHTS)
    found = complaint(folder)
    assert f"the recipe of {str(folder)!r} cannot be read" in found
    assert "flavour" in found
