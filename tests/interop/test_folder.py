"""The folder of an export: it is verified when it is read, and translates alone."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ctranslate2.specs import TransformerSpec

from dragoman.artifact import read_artifact
from dragoman.errors import ArtifactError
from dragoman.interop.ctranslate2 import export
from dragoman.interop.folder import FOLDER, read_export
from dragoman.storage.files import sha256
from support.interop_models import small, write_model

FILES = [
    "config.json",
    "model.bin",
    "recipe.yaml",
    "shared_vocabulary.json",
    "tokenizer/source/words.json",
    "tokenizer/target/words.json",
]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "run"
    model = write_model(folder, small({"tokenizer": {"kind": "words"}}))
    export(model.folder, model.folder / FOLDER)
    return model


@pytest.fixture
def written(original, tmp_path):
    """A copy that a test may change."""
    folder = shutil.copytree(original.folder, tmp_path / "run")
    return dataclasses.replace(original, folder=folder)


@pytest.fixture
def folder(written):
    return written.folder / FOLDER


def refusal(folder):
    with pytest.raises(ArtifactError) as caught:
        read_export(folder)
    return str(caught.value)


def test_an_export_is_read_as_it_was_written(written, folder):
    exported = read_export(folder)
    artifact = read_artifact(written.folder)
    assert exported.recipe == artifact.recipe
    assert exported.facts.format == 1
    assert exported.facts.quantization == "float32"
    assert exported.facts.model == artifact.hashes["model.safetensors"]
    assert exported.facts.model == sha256(written.folder / "model.safetensors")
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
    (folder / name).unlink()  # The tokenizer files are links to those of the run.
    (folder / name).write_bytes(content)
    assert f"is damaged: {name} is not what was written; export it again" in refusal(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert f"is damaged: {name} is missing; export it again" in refusal(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": "x"}', '{"format": 1, "sha256": 3}']
)
def test_unreadable_facts_are_refused(folder, text):
    (folder / "dragoman.json").write_text(text)
    assert refusal(folder) == (
        f"dragoman.json of {str(folder)!r} cannot be read; export the model again"
    )


def test_a_newer_format_is_refused(folder):
    """The format number is read first; the rest may have changed."""
    (folder / "dragoman.json").write_text('{"format": 2}')
    assert refusal(folder) == (
        f"{str(folder)!r} has format 2, this version of Dragoman reads up to 1; "
        "install a newer version, or export the model again"
    )


def test_a_recipe_of_another_version_is_refused(folder):
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "flavour: sweet\n")
    facts = json.loads((folder / "dragoman.json").read_text())
    facts["sha256"]["recipe.yaml"] = sha256(recipe)
    (folder / "dragoman.json").write_text(json.dumps(facts))
    assert "cannot be read" in refusal(folder)
    assert "flavour" in refusal(folder)


def test_a_folder_without_an_export_is_refused(tmp_path, written):
    for path in (tmp_path / "nowhere", written.folder, written.folder / "recipe.yaml"):
        assert refusal(path) == (
            f"there is no export in {str(path)!r}; to make one, type: dragoman export RUN -o {path}"
        )


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_same_model_gives_an_identical_export(written, folder):
    export(written.folder, written.folder / "again")
    first, again = contents(folder), contents(written.folder / "again")
    assert list(first.values()) == list(again.values())


def test_an_older_export_is_replaced(written, folder):
    (folder / "left over").write_text("")
    export(written.folder, folder, "int8", force=True)
    assert read_export(folder).facts.quantization == "int8"
    assert not (folder / "left over").exists()
    assert [path for path in written.folder.iterdir() if path.name.startswith(".")] == []


def test_an_export_in_the_current_folder_is_replaced(written, folder, monkeypatch):
    monkeypatch.chdir(folder)
    export(written.folder, Path(), "int8", force=True)
    assert read_export(folder).facts.quantization == "int8"


def test_an_export_removes_what_a_killed_one_left(written, folder):
    left_over = folder.with_name(f".{FOLDER}.new")
    left_over.mkdir()
    (left_over / "model.bin").write_text("half")
    export(written.folder, folder, "int8", force=True)
    assert read_export(folder).facts.quantization == "int8"
    assert not left_over.exists()


@pytest.mark.parametrize("force", [False, True])
def test_another_folder_is_never_replaced(written, force):
    with pytest.raises(ArtifactError, match="exists and is not an export"):
        export(written.folder, written.folder / "tokenizer", force=force)
    read_artifact(written.folder)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("is_new", [True, False])
def test_an_interrupted_export_changes_nothing(written, monkeypatch, error, is_new):
    folder = written.folder / ("new" if is_new else FOLDER)
    before = contents(written.folder)
    save = TransformerSpec.save

    def fail_after_saving(self, path):
        save(self, path)
        raise error

    monkeypatch.setattr(TransformerSpec, "save", fail_after_saving)
    with pytest.raises(type(error)):
        export(written.folder, folder, "int8", force=True)
    assert contents(written.folder) == before
    assert folder.exists() != is_new


ALONE = """
import sys
from pathlib import Path

import ctranslate2

from dragoman.interop.folder import read_export
from dragoman.tokenizer.folder import load_tokenizer

export = read_export(Path(sys.argv[1]))
source, target = (load_tokenizer(export.tokenizer / side) for side in ("source", "target"))
ids = source.encode(["one two three"])[0]
[result] = ctranslate2.Translator(sys.argv[1]).translate_batch([source.pieces(ids)])
ids = [target.id_of(piece) for piece in result.hypotheses[0]]
assert target.pieces(ids) == result.hypotheses[0]
print("torch" in sys.modules)
"""


def test_an_export_translates_alone_and_without_torch(tmp_path, written, folder):
    shutil.move(folder, tmp_path / "elsewhere")
    shutil.rmtree(written.folder)
    process = subprocess.run(
        [sys.executable, "-c", ALONE, tmp_path / "elsewhere"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "False\n"
