"""Are models read from a store, exported into it, and texts translated from and into it?"""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.errors import ArtifactError, DataError
from dragoman.inference.translator import Translator
from dragoman.storage import mirror
from dragoman.storage.files import link_or_copy, write_text
from dragoman.storage.mirror import local_path, path_text
from dragoman.workflow import training, translation
from dragoman.workflow.evaluation import evaluate
from dragoman.workflow.exporting import export
from dragoman.workflow.preparation import prepare
from support import digits
from support.small_corpus import write_corpus
from support.translator_models import lines, write_run

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def upload_folder(folder: Path, url: str) -> str:
    for name in mirror.names(folder):
        link_or_copy(folder / name, local_path(url) / name)
    return url


@pytest.mark.slow
def test_a_model_in_a_store_translates_a_file_in_a_store(folder_url, tmp_path):
    run = write_run(tmp_path / "run")
    url = upload_folder(run, f"{folder_url}/run")
    text = "".join(f"{line}\n" for line in lines(40))
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(text.encode()))
    link_or_copy(tmp_path / "in.txt.gz", local_path(folder_url) / "in.txt.gz")
    with Translator.load(run) as translator:
        expected = translation.translate_file(
            translator, tmp_path / "in.txt.gz", tmp_path / "out.txt"
        )
    with Translator.load(url) as translator:
        done = translation.translate_file(
            translator, f"{folder_url}/in.txt.gz", f"{folder_url}/out.txt"
        )
        again = translation.translate_file(
            translator, f"{folder_url}/in.txt.gz", f"{folder_url}/out.txt"
        )
        with pytest.raises(DataError, match=r"there is no file '(s3|az|file)://.*none.txt'"):
            translation.translate_file(translator, f"{folder_url}/none.txt", f"{folder_url}/o")
    assert path_text(done.path) == f"{folder_url}/out.txt"
    assert mirror.read_text(done.path) == (tmp_path / "out.txt").read_text()
    assert done.card == expected.card
    assert again.was_complete
    # Neither parts nor temporary files stay in the store.
    left = [name for name in mirror.names(local_path(folder_url)) if not name.startswith("run/")]
    assert left == ["in.txt.gz", "out.txt", "out.txt.card.json"]


@pytest.mark.slow
def test_the_command_translates_between_urls(bucket, tmp_path):
    run = upload_folder(write_run(tmp_path / "run"), f"{bucket}/run")
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines(10)))
    link_or_copy(tmp_path / "in.txt", local_path(bucket) / "in.txt")
    command = [sys.executable, "-m", "dragoman", "translate", run]
    done = subprocess.run(
        [*command, "-i", f"{bucket}/in.txt", "-o", f"{bucket}/out.txt"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"{bucket}/out.txt" in done.stdout + done.stderr
    assert str(tmp_path) not in done.stdout + done.stderr
    assert mirror.read_text(local_path(bucket) / "out.txt").count("\n") == 10


@pytest.mark.slow
def test_an_export_in_a_store_is_complete_and_replaced_only_with_force(folder_url, tmp_path):
    pytest.importorskip("ctranslate2")
    run = upload_folder(write_run(tmp_path / "run"), f"{folder_url}/run")
    result = export(run, output=f"{folder_url}/export")
    assert path_text(result.folder) == f"{folder_url}/export"
    with Translator.load(f"{folder_url}/export") as exported, Translator.load(run) as original:
        texts = lines(5)
        assert [t.text for t in exported.stream(texts)] == [t.text for t in original.stream(texts)]
    with pytest.raises(ArtifactError, match=r"exists; to replace it, add --force"):
        export(run, output=f"{folder_url}/export", quantization="int8")
    export(run, output=f"{folder_url}/export", quantization="int8", force=True)
    with Translator.load(f"{folder_url}/export") as exported:
        assert exported.quantization == "int8"


@pytest.mark.slow
@pytest.mark.parametrize("force", [False, True])
def test_an_export_replaces_nothing_but_an_export(folder_url, tmp_path, force):
    pytest.importorskip("ctranslate2")
    run = upload_folder(write_run(tmp_path / "run"), f"{folder_url}/run")
    write_text(local_path(folder_url) / "corpus" / "train.en", "mine")
    before = mirror.names(local_path(folder_url))
    for output in (f"{folder_url}/corpus", run, f"{folder_url}/corpus/train.en"):
        with pytest.raises(ArtifactError, match=r"exists and is not an export"):
            export(run, output=output, force=force)
    with pytest.raises(DataError, match=r"expected a folder in it"):
        export(run, output=folder_url.partition("//")[0] + "//" + bucket_of(folder_url))
    assert mirror.names(local_path(folder_url)) == before


@pytest.mark.slow
def test_an_export_replaces_what_a_killed_one_left(folder_url, tmp_path):
    pytest.importorskip("ctranslate2")
    run = upload_folder(write_run(tmp_path / "run"), f"{folder_url}/run")
    output = local_path(folder_url) / "export"
    write_text(output / "0123456789abcdef" / "model.bin", "half")
    export(run, output=f"{folder_url}/export")
    assert "dragoman.json" in mirror.names(output)
    assert not mirror.exists(output / "0123456789abcdef" / "model.bin")


def bucket_of(url):
    """The name of the bucket; the local disk has none."""
    scheme, _, rest = url.partition("://")
    return "" if scheme == "file" else rest.partition("/")[0]


def test_the_output_of_a_translation_needs_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "in.txt").write_text("1 2\n")
    with (
        Translator.load(write_run(tmp_path / "run")) as translator,
        pytest.raises(DataError, match=r"found -o s3://texts, expected a file: s3://texts/NAME"),
    ):
        translation.translate_file(translator, tmp_path / "in.txt", "s3://texts")


def test_a_missing_model_is_named_by_its_url(folder_url):
    with pytest.raises(ArtifactError, match=rf"there is no folder '{folder_url}/none'"):
        Translator.load(f"{folder_url}/none")


def test_a_test_text_in_a_store_is_scored(folder_url, tmp_path):
    run = write_run(tmp_path / "run")
    urls = []
    for name in ("source", "reference"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines(6)))
        link_or_copy(tmp_path / name, local_path(folder_url) / name)
        urls.append(f"{folder_url}/{name}")
    here = evaluate(run, source=tmp_path / "source", references=[tmp_path / "reference"])
    there = evaluate(run, source=urls[0], references=urls[1:])
    assert there.systems == here.systems
    assert list(there.files) == urls
    assert list(there.files.values()) == list(here.files.values())
    with pytest.raises(DataError, match=f"there is no file '{folder_url}/missing'"):
        evaluate(run, source=f"{folder_url}/missing", references=urls[1:])


def test_messages_name_a_file_by_its_url(folder_url, tmp_path):
    (tmp_path / "a.po").touch()
    link_or_copy(tmp_path / "a.po", local_path(folder_url) / "a.po")
    with pytest.raises(DataError, match=rf"'{folder_url}/a.po' is a document.*RUN {folder_url}"):
        translation.check_source(local_path(folder_url) / "a.po")


def test_training_starts_from_a_run_in_a_store(folder_url, tmp_path):
    recipe = digits.write(tmp_path, training={"steps": 1})
    run = training.train(recipe).folder
    url = upload_folder(run, f"{folder_url}/run")
    settings = [f"training.init_from={url}", "training.folder=again", "training.learning_rate=0"]
    again = training.train(recipe, settings).folder
    first, second = (load_file(folder / "model.safetensors") for folder in (run, again))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_a_run_in_a_store_is_the_run_in_a_folder(folder_url, tmp_path):
    recipe = write_corpus(tmp_path / "corpus", count=300)
    settings = [
        f"corpus.folder={folder_url}/prepared",
        *("model.width=16", "model.heads=2", "model.encoder_layers=1", "model.decoder_layers=1"),
        *("training.steps=2", "training.warmup_steps=1", "training.validate_every=2"),
    ]
    prepare(recipe, settings, workers=1)
    in_folder = training.train(recipe, settings)
    in_store = training.train(recipe, [*settings, f"training.folder={folder_url}/run"])
    assert path_text(in_store.folder) == f"{folder_url}/run"
    assert "model.safetensors" in mirror.names(local_path(f"{folder_url}/run"))
    with Translator.load(f"{folder_url}/run") as remote, Translator.load(in_folder.folder) as local:
        assert remote.model_hash == local.model_hash
