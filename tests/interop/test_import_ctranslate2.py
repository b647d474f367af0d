"""CTranslate2 models of other programs, and Argos packages, translate as where they came from.

The models are small and made on the spot: one of OPUS-MT's layout, converted by CTranslate2 itself,
and one of our own with the names of OpenNMT.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import ctranslate2
import pytest
import torch

from dragoman.errors import ArtifactError, DataError, DragomanError, RecipeError
from dragoman.inference.translator import Translator
from dragoman.interop.folder import read_export
from dragoman.serving.worker import Worker, WorkerSettings
from dragoman.tokenizer.interface import SPECIAL
from dragoman.workflow import training
from dragoman.workflow.documents import options_for
from dragoman.workflow.exporting import export, import_model
from support import digits
from support.live_server import fetch
from support.marian_models import ENGLISH, GERMAN, unigram, write_opus
from support.translator_models import lines, write_run

pytestmark = [
    pytest.mark.slow,
    # MarianTokenizer recommends a package that it does not use.
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]

LINES = lines(20, seed=3)
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
VOCABULARY = "shared_vocabulary.json"


def texts(folder, sentences, settings=()):
    with Translator.load(folder, settings, engine="ctranslate2") as translator:
        return [translation.text for translation in translator.translate(sentences)]


# OPUS-MT, converted from transformers.


@pytest.fixture(scope="module")
def opus(tmp_path_factory):
    """A Marian model, and its conversion to CTranslate2."""
    torch.manual_seed(20170612)
    folder = tmp_path_factory.mktemp("opus")
    write_opus(folder / "opus", languages=(), has_zero_padding=True)
    converter = ctranslate2.converters.TransformersConverter(
        str(folder / "opus"), copy_files=["source.spm", "target.spm", "tokenizer_config.json"]
    )
    converter.convert(str(folder / "converted"))
    return folder


def test_a_converted_opus_model_translates_as_the_imported_original(opus, tmp_path):
    import_model(opus / "opus", tmp_path / "run")
    import_model(opus / "converted", tmp_path / "export")
    sentences = [*ENGLISH, "a cat ate the hat", "hello!", "the 42 old apples"]
    for search in ("decoding.search=greedy", "decoding.beam_size=3"):
        settings = [search, "decoding.max_extra_tokens=8"]
        expected, actual = (
            [text[:40] for text in texts(tmp_path / name, sentences, settings)]
            for name in ("run", "export")
        )
        # A random model repeats itself, and late in a long text two tokens may be almost equal.
        # The two vocabularies differ in size, so the last bits of their logits do too.
        assert actual == expected
        assert len(set(expected)) > 1  # The comparison is not trivial.
    recipe = read_export(tmp_path / "export").recipe
    assert (recipe.languages.source, recipe.languages.target) == ("en", "de")


def test_the_converter_leaves_the_end_token_to_us(opus, tmp_path):
    before = json.loads((opus / "converted" / "config.json").read_text())
    import_model(opus / "converted", tmp_path / "export")
    after = json.loads((tmp_path / "export" / "config.json").read_text())
    assert (before["add_source_eos"], after["add_source_eos"]) == (False, True)
    assert before == after | {"add_source_eos": False}


def test_its_position_table_limits_the_length(opus, tmp_path):
    import_model(opus / "converted", tmp_path / "export")
    # The table of this model has 128 rows.
    assert read_export(tmp_path / "export").facts.max_positions == 128
    long = " ".join(ENGLISH * 20)
    (translation,) = texts(tmp_path / "export", [long], ["decoding.max_source_tokens=4000"])
    assert translation


# OpenNMT and Argos.


def write_opennmt(folder, run):
    """Write a run as a folder with the names of OpenNMT; return its SentencePiece model."""
    export(run, output=folder)
    for name in ("dragoman.json", "recipe.yaml", "README.md"):
        (folder / name).unlink()
    names = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
    assert names[: len(SPECIAL)] == list(SPECIAL)
    (folder / VOCABULARY).write_text(json.dumps(["<blank>", *names[1:]]), encoding="utf-8")
    model = (folder / "tokenizer" / "source" / "tokenizer.model").read_bytes()
    shutil.rmtree(folder / "tokenizer")
    return model


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A run, and an Argos package that was made from it, unpacked and packed."""
    folder = tmp_path_factory.mktemp("argos")
    write_run(folder / "run", pair=("", ""))
    unpacked = folder / "translate-en_de-1_0"
    unpacked.mkdir()
    model = write_opennmt(unpacked / "model", folder / "run")
    (unpacked / "sentencepiece.model").write_bytes(model)
    (unpacked / "README.md").write_text("Trained on numbers.", encoding="utf-8")
    metadata = {"package_version": "1.0", "from_code": "en", "to_code": "de", "to_name": "German"}
    (unpacked / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    (unpacked / "stanza").mkdir()
    (unpacked / "stanza" / "resources.json").write_text("{}", encoding="utf-8")
    pack(unpacked, folder / "translate-en_de-1_0.argosmodel")
    return folder


def pack(folder, path, root=None):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, f"{root or folder.name}/{file.relative_to(folder).as_posix()}")


@pytest.fixture
def package(packages, tmp_path):
    """An unpacked package that a test may damage."""
    return Path(shutil.copytree(packages / "translate-en_de-1_0", tmp_path / "package"))


SAME = ["decoding.length_penalty=1", "decoding.beam_size=3", "decoding.max_extra_tokens=2"]
"""The settings that differ between a run and an Argos package."""


@pytest.mark.parametrize("name", ["translate-en_de-1_0", "translate-en_de-1_0.argosmodel"])
def test_an_argos_package_translates_as_the_model_in_it(packages, name, tmp_path):
    import_model(packages / name, tmp_path / "imported")
    assert texts(tmp_path / "imported", LINES, SAME) == texts(packages / "run", LINES, SAME)
    recipe = read_export(tmp_path / "imported").recipe
    assert (recipe.languages.source, recipe.languages.target) == ("en", "de")
    assert (recipe.decoding.beam_size, recipe.decoding.length_penalty) == (4, 0.2)
    card = (tmp_path / "imported" / "README.md").read_text(encoding="utf-8")
    assert "cannot be trained" in card
    assert "Trained on numbers." in card
    # Nothing else is left, and nothing of the package is needed any more.
    assert [path.name for path in tmp_path.iterdir()] == ["imported"]
    assert not (tmp_path / "imported" / "stanza").exists()


def test_an_opennmt_folder_with_old_vocabulary_files(package, tmp_path):
    folder = package / "model"
    names = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
    (folder / VOCABULARY).unlink()
    for side in ("source", "target"):
        text = "".join(f"{name}\n" for name in names)
        (folder / f"{side}_vocabulary.txt").write_text(text, encoding="utf-8")
    shutil.copy(package / "sentencepiece.model", folder)
    import_model(folder, tmp_path / "imported", source="en", target="pt-BR")
    import_model(package, tmp_path / "argos")
    assert texts(tmp_path / "imported", LINES, SAME) == texts(tmp_path / "argos", LINES, SAME)
    languages = read_export(tmp_path / "imported").recipe.languages
    assert (languages.source, languages.target) == ("en", "pt-BR")


@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_the_quantization_is_recorded(packages, quantization, tmp_path):
    export(packages / "run", output=tmp_path / "model", quantization=quantization)
    (tmp_path / "model" / "dragoman.json").unlink()
    tokenizer = tmp_path / "model" / "tokenizer" / "source" / "tokenizer.model"
    shutil.copy(tokenizer, tmp_path / "model" / "sentencepiece.model")
    import_model(tmp_path / "model", tmp_path / "imported")
    assert read_export(tmp_path / "imported").facts.quantization.startswith(quantization)


def test_importing_and_translating_needs_no_torch(packages, tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from dragoman import Translator, import_model\n"
        "folder = import_model(sys.argv[1], sys.argv[2])\n"
        "print(Translator.load(folder).translate('One and two.').text)\n"
    )
    archive = packages / "translate-en_de-1_0.argosmodel"
    process = subprocess.run(
        [sys.executable, "-c", code, archive, tmp_path / "imported"], capture_output=True, text=True
    )
    assert process.stderr == ""
    assert process.stdout.strip() == texts(tmp_path / "imported", ["One and two."])[0]


def test_documents_use_no_span_tokens(packages, tmp_path):
    import_model(packages / "translate-en_de-1_0", tmp_path / "imported")
    with Translator.load(tmp_path / "imported") as translator:
        options = options_for(translator)
    # The vocabulary of this model has the tokens, but nobody says that the model learned them.
    assert (options.has_span_tokens, options.has_term_tokens) == (False, False)


def test_training_is_refused(packages, tmp_path):
    import_model(packages / "translate-en_de-1_0", tmp_path / "imported")
    recipe = digits.write(tmp_path)
    with pytest.raises(ArtifactError, match=r"is a CTranslate2 export.*no weights.*trained"):
        training.train(recipe, ["training.init_from=imported"])
    with pytest.raises(
        ArtifactError, match="no weights that can be trained, explained or exported"
    ):
        export(tmp_path / "imported", output=tmp_path / "again")


def dragoman(*arguments):
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def test_a_package_is_imported_and_served_from_the_command_line(packages, tmp_path):
    folder = tmp_path / "imported"
    command = dragoman("import", packages / "translate-en_de-1_0.argosmodel", folder)
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be trained" in ended.stdout
    (expected,) = texts(folder, ["One and two."])
    serve = dragoman("serve", folder, "--port", 0)
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = next(match for line in server.stdout if (match := ADDRESS.search(line)))
            body = json.dumps({"q": "One and two.", "source": "en", "target": "de"}).encode()
            headers = {"Content-Type": "application/json"}
            answer = fetch("127.0.0.1", int(address[1]), "POST", "/translate", body, headers)
        finally:
            server.terminate()
            server.communicate()
    # The text form of documents adds or removes a full stop and a capital letter.
    assert answer.json()["translatedText"].strip(".").lower() == expected.strip(".").lower()


def test_a_server_needs_the_languages(package, tmp_path):
    (package / "metadata.json").write_text("{}")
    import_model(package, tmp_path / "imported")
    with pytest.raises(ArtifactError, match=r"does not name its languages.*--languages en-fr"):
        Worker(WorkerSettings(run=str(tmp_path / "imported")))


# What cannot be imported.


def refusal(path, **languages):
    destination = path.parent / "imported"
    with pytest.raises(DragomanError) as caught:
        import_model(path, destination, **languages)
    assert not destination.exists()
    assert not [file.name for file in path.parent.iterdir() if file.name.startswith(".")]
    return str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"type": "sbd"}, "its type is 'sbd', expected 'translate'"),
        ({"target_prefix": "__es__"}, "must begin with '__es__', which is not supported"),
        ({"from_code": 3}, "metadata.json cannot be read"),
    ],
)
def test_other_packages_are_refused(package, metadata, message):
    (package / "metadata.json").write_text(json.dumps(metadata))
    assert message in refusal(package)


def test_all_reasons_are_given_at_once(package):
    (package / "sentencepiece.model").rename(package / "bpe.model")
    (package / "model" / "model.bin").unlink()
    message = refusal(package)
    assert "Moses and BPE" in message
    assert "lacks model/model.bin" in message


def test_a_folder_without_tokenizer_is_refused(package):
    assert "expected source.spm and target.spm, or sentencepiece.model" in refusal(
        package / "model"
    )


def test_a_folder_without_vocabulary_is_refused(package):
    (package / "model" / VOCABULARY).unlink()
    assert "has no source vocabulary" in refusal(package)


def test_a_tokenizer_of_another_model_is_refused(package):
    model, _ = unigram(GERMAN)
    (package / "sentencepiece.model").write_bytes(model)
    assert "does not belong to this model" in refusal(package)


@pytest.mark.parametrize("name", ["model/model.bin", "sentencepiece.model", f"model/{VOCABULARY}"])
def test_a_damaged_file_is_refused(package, name):
    (package / name).write_bytes((package / name).read_bytes()[:100])
    assert Path(name).name in refusal(package) or "CTranslate2 cannot translate" in refusal(package)


def test_a_damaged_or_other_archive_is_refused(packages, tmp_path):
    path = tmp_path / "broken.argosmodel"
    path.write_bytes((packages / "translate-en_de-1_0.argosmodel").read_bytes()[:5000])
    assert "Download it again" in refusal(path)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "nothing")
    assert "has no metadata.json" in refusal(other)
    (tmp_path / "text.txt").write_text("nothing")
    assert "is a file, but no Argos package" in refusal(tmp_path / "text.txt")


def test_an_archive_cannot_write_elsewhere(package, tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    pack(package, folder / "evil.argosmodel", root="../../evil")
    with zipfile.ZipFile(folder / "evil.argosmodel", "a") as archive:
        archive.writestr("../../evil/model/../../outside.txt", "x")
        archive.writestr("/absolute.txt", "x")
    import_model(folder / "evil.argosmodel", folder / "imported")
    assert {path.name for path in folder.iterdir()} == {"evil.argosmodel", "imported"}
    assert {path.name for path in tmp_path.iterdir()} == {"package", "inside"}


def test_what_needs_no_import_or_a_conversion_first(packages, opus, tmp_path):
    import_model(packages / "translate-en_de-1_0", tmp_path / "imported")
    for own in (packages / "run", tmp_path / "imported"):
        with pytest.raises(ArtifactError, match=r"needs no import\. Type: dragoman translate"):
            import_model(own, tmp_path / "again")
    with pytest.raises(DataError, match="exists already"):
        import_model(packages / "translate-en_de-1_0", tmp_path / "imported")
    marian = tmp_path / "opus-2020"
    marian.mkdir()
    for name in ("decoder.yml", "opus.npz", "source.spm"):
        (marian / name).touch()
    assert "ct2-opus-mt-converter --model_dir" in refusal_of(marian, tmp_path / "again")


def refusal_of(path, destination):
    with pytest.raises((ArtifactError, RecipeError)) as caught:
        import_model(path, destination)
    return str(caught.value)


def test_a_wrong_language_code_is_refused(package):
    assert "found 'english', expected a language code" in refusal(package, source="english")
