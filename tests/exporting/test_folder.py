"""Is an exported model whole, or does it say what is wrong; and is it enough, alone?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from ctranslate2.specs import TransformerSpec

from dragoman.artifact import read_artifact
from dragoman.durable import sha256
from dragoman.errors import ArtifactError
from dragoman.exporting.ctranslate2 import export
from dragoman.exporting.folder import FOLDER, read_export
from exporting_models import small, write_model

FILES = [
    "config.json",
    "model.bin",
    "recipe.yaml",
    "shared_vocabulary.json",
    "tokenizer/source/words.json",
    "tokenizer/target/words.json",
]


@pytest.fixture
def written(tmp_path):
    found = write_model(tmp_path / "run", small({"tokenizer": {"kind": "words"}}))
    export(found.folder, found.folder / FOLDER)
    return found


@pytest.fixture
def folder(written):
    return written.folder / FOLDER


def complaint(folder):
    with pytest.raises(ArtifactError) as caught:
        read_export(folder)
    return str(caught.value)


def test_what_was_written_comes_back(written, folder):
    found = read_export(folder)
    artifact = read_artifact(written.folder)
    assert found.recipe == artifact.recipe
    assert found.quantization == "float32"
    assert found.model_hash == artifact.hashes["model.safetensors"]
    assert found.model_hash == sha256(written.folder / "model.safetensors")
    assert sorted(json.loads((folder / "dragoman.json").read_text())["sha256"]) == FILES


def test_two_vocabularies_are_two_files(tmp_path):
    recipe = small({"tokenizer": {"shared": False}, "model": {"tied_embeddings": "none"}})
    write_model(tmp_path, recipe)
    export(tmp_path, tmp_path / FOLDER)
    names = {file.name for file in (tmp_path / FOLDER).iterdir()}
    assert {"source_vocabulary.json", "target_vocabulary.json"} <= names


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).unlink()  # The tokenizer's are links to the run's own.
    (folder / name).write_bytes(content)
    assert f"is damaged: {name} is not what was written; export it again" in complaint(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert f"is damaged: {name} is missing; export it again" in complaint(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": "x"}', '{"format": 1, "sha256": 3}']
)
def test_facts_that_say_nothing_are_told(folder, text):
    (folder / "dragoman.json").write_text(text)
    assert complaint(folder) == (
        f"dragoman.json of {str(folder)!r} cannot be read; export the model again"
    )


def test_a_newer_format_is_told(folder):
    """Whatever else it says: the number is read first."""
    (folder / "dragoman.json").write_text('{"format": 2}')
    assert complaint(folder) == (
        f"{str(folder)!r} has format 2, this Dragoman reads up to 1; "
        "take a newer one, or export the model again"
    )


def test_a_recipe_of_another_version_is_told(folder):
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "flavour: sweet\n")
    facts = json.loads((folder / "dragoman.json").read_text())
    facts["sha256"]["recipe.yaml"] = sha256(recipe)
    (folder / "dragoman.json").write_text(json.dumps(facts))
    assert "cannot be read" in complaint(folder)
    assert "flavour" in complaint(folder)


def test_no_export_is_told(tmp_path, written):
    for place in (tmp_path / "nowhere", written.folder, written.folder / "recipe.yaml"):
        assert complaint(place) == (
            f"there is no exported model in {str(place)!r}; type: dragoman export RUN"
        )


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_same_model_gives_the_same_bytes(written, folder):
    export(written.folder, written.folder / "again")
    first, again = contents(folder), contents(written.folder / "again")
    assert list(first.values()) == list(again.values())


def test_an_older_export_is_replaced(written, folder):
    (folder / "left over").write_text("")
    export(written.folder, folder, "int8")
    assert read_export(folder).quantization == "int8"
    assert not (folder / "left over").exists()
    assert [each for each in written.folder.iterdir() if each.name.startswith(".")] == []


def test_what_a_killed_export_left_does_not_matter(written, folder):
    left_over = folder.with_name(f".{FOLDER}.new")
    left_over.mkdir()
    (left_over / "model.bin").write_text("half")
    export(written.folder, folder, "int8")
    assert read_export(folder).quantization == "int8"
    assert not left_over.exists()


def test_what_is_no_export_is_not_replaced(written):
    with pytest.raises(ArtifactError, match="is there, and is not an export"):
        export(written.folder, written.folder / "tokenizer")
    read_artifact(written.folder)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_interrupted_export_leaves_nothing_half_written(written, monkeypatch, error, is_first):
    folder = written.folder / ("first" if is_first else FOLDER)
    before = contents(written.folder)
    save = TransformerSpec.save

    def end_half_way(self, place):
        save(self, place)
        raise error

    monkeypatch.setattr(TransformerSpec, "save", end_half_way)
    with pytest.raises(type(error)):
        export(written.folder, folder, "int8")
    assert contents(written.folder) == before
    assert folder.exists() != is_first


ALONE = """
import sys
from pathlib import Path

import ctranslate2

from dragoman.exporting.folder import read_export
from dragoman.tokenizer.folder import load_tokenizer

found = read_export(Path(sys.argv[1]))
source, target = (load_tokenizer(found.tokenizer / side) for side in ("source", "target"))
ids = source.encode(["one two three"])[0]
[result] = ctranslate2.Translator(sys.argv[1]).translate_batch([source.pieces(ids)])
ids = [target.id_of(piece) for piece in result.hypotheses[0]]
assert target.pieces(ids) == result.hypotheses[0]
print("torch" in sys.modules)
"""


def test_it_is_served_alone_and_without_torch(tmp_path, written, folder):
    shutil.move(folder, tmp_path / "elsewhere")
    shutil.rmtree(written.folder)
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, tmp_path / "elsewhere"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "False\n"
