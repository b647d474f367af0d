"""A run that was trained on another machine is used after only its folder was copied."""

from __future__ import annotations

import json
import shutil

import pytest

from dragoman.artifact import read_artifact
from dragoman.errors import ArtifactError
from dragoman.inference.translator import Translator
from dragoman.storage.files import sha256
from dragoman.workflow import evaluation, training
from dragoman.workflow.exporting import export
from support import digits

pytestmark = pytest.mark.slow

SOURCES = ["3 1 4", "1 5 9 2", "6", "5 3 5 8 9"]


def texts(folder, engine):
    with Translator.load(folder, engine=engine) as translator:
        return [translation.text for translation in translator.translate(SOURCES)]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of a run whose recipe has absolute paths, and the translations of the original."""
    there, here = (tmp_path_factory.mktemp(name) for name in ("there", "here"))
    recipe = digits.write(
        there,
        kind="sentencepiece",
        corpus={"folder": str(there / "prepared"), "glossary": str(there / "terms.tsv")},
        training={"folder": str(there / "run"), "average_checkpoints": 1},
    )
    # As `dragoman prepare` writes it, with the hashes of the test set.
    manifest = json.loads((there / "prepared" / "manifest.json").read_text())
    names = ("test.source", "test.target")
    manifest["files"] = {name: sha256(there / "prepared" / name) for name in names}
    (there / "prepared" / "manifest.json").write_text(json.dumps(manifest))
    training.train(recipe)
    expected = {engine: texts(there / "run", engine) for engine in ("pytorch", "ctranslate2")}
    shutil.copytree(there / "run", here / "copied")
    shutil.copytree(there / "prepared", here / "prepared")
    shutil.rmtree(there)
    return here, expected


@pytest.mark.parametrize("engine", ["pytorch", "ctranslate2"])
def test_it_translates_as_the_original(copied, engine):
    here, expected = copied
    assert texts(here / "copied", engine) == expected[engine]


def test_it_is_exported(copied, tmp_path):
    here, expected = copied
    export(here / "copied", output=tmp_path / "exported")
    assert texts(tmp_path / "exported", "ctranslate2") == expected["ctranslate2"]
    shutil.copytree(here / "copied" / "ctranslate2", tmp_path / "only")
    assert texts(tmp_path / "only", "ctranslate2") == expected["ctranslate2"]


def test_it_is_evaluated_with_its_corpus_beside_it_or_with_other_text(copied, tmp_path):
    here, _ = copied
    assert evaluation.evaluate(here / "copied").systems[0].scores
    alone, text = shutil.copytree(here / "copied", tmp_path / "alone"), tmp_path / "in.txt"
    text.write_text("\n".join(SOURCES) + "\n")
    assert evaluation.evaluate(alone, source=text, references=[text]).systems[0].scores
    with pytest.raises(ArtifactError, match=r"the corpus that .* was trained on is not in"):
        evaluation.evaluate(alone)


def test_it_is_the_start_of_another_training(copied):
    here, _ = copied
    recipe = digits.write_recipe(
        here,
        tokenizer={"kind": "sentencepiece"},
        training={"init_from": "copied", "folder": "next", "learning_rate": 0.0},
    )
    training.train(recipe, ["training.average_checkpoints=1"])
    before, after = (read_artifact(here / name) for name in ("copied", "next"))
    assert after.model_hash == before.model_hash
