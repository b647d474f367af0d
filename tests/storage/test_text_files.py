"""Are many text files translated like one, in parts that another process can continue?"""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.corpus.files import read_blocks
from dragoman.errors import ArtifactError, DataError
from dragoman.inference.translator import Translator
from dragoman.storage import mirror
from dragoman.storage.files import link_or_copy, remove
from dragoman.storage.mirror import local_path
from dragoman.workflow import translation, translation_tasks
from dragoman.workflow.exporting import export
from dragoman.workflow.text_files import TextFilesRequest, translate_text_files
from dragoman.workflow.translation_tasks import TranslatePartTask
from support.translator_models import lines, write_run

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PACKERS = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda text: pyarrow.compress(text, "zstd", asbytes=True),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    run = write_run(tmp_path_factory.mktemp("model") / "run")
    export(run)
    return run


@pytest.fixture
def in_this_process(monkeypatch):
    """Small parts, translated without further processes, which take seconds to start."""
    monkeypatch.setattr(translation, "PART_BYTES", 1000)
    monkeypatch.setattr(TranslatePartTask, "needs_process", False)


def write_texts(folder: Path) -> dict[str, bytes]:
    """Write one file for each compression; return their texts."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {}
    for seed, (extension, pack) in enumerate(PACKERS.items(), start=1):
        rows = lines(60, seed)
        rows[3:3] = ["", "  ", "\tOne two. \r"]
        text = "\n".join(rows).encode()  # The last line has no newline.
        name = f"text-{seed}{extension}"
        texts[name] = b"" if extension == ".xz" else text
        (folder / name).write_bytes(pack(texts[name]))
    return texts


def unpack(path: Path) -> bytes:
    return b"".join(read_blocks(path))


def expected_texts(model: Path, folder: Path, scratch: Path) -> dict[str, bytes]:
    """Translate every file alone."""
    outputs = {}
    with Translator.load(model, engine="ctranslate2", threads=1) as translator:
        for file in sorted(folder.iterdir()):
            output = scratch / f"{file.name}.out"
            translation.translate_file(translator, file, output)
            outputs[file.name] = output.read_bytes()
    return outputs


def request(model, inputs, output, **options) -> TextFilesRequest:
    names = (inputs,) if isinstance(inputs, str | Path) else inputs
    options = {"workers": 1} | options
    return TextFilesRequest((str(model),), tuple(map(str, names)), str(output), **options)


class StopAfter:
    """Records the progress, and stops the job after some lines."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count
        self.already_done = None

    def __call__(self, progress) -> None:
        if progress.stage != "translate":
            return
        if self.already_done is None:
            self.already_done = progress.done
        if self.count is not None and progress.done >= self.count:
            raise KeyboardInterrupt


def test_many_files_are_translated_like_one(model, folder_url, tmp_path, in_this_process):
    texts = write_texts(tmp_path / "in")
    for name in texts:
        link_or_copy(tmp_path / "in" / name, local_path(f"{folder_url}/in") / name)
    pattern, output = f"{folder_url}/in/text-*", f"{folder_url}/out"
    result = translate_text_files(request(model, pattern, output))
    expected = expected_texts(model, tmp_path / "in", tmp_path)
    assert {name: unpack(local_path(output) / name) for name in texts} == expected
    for name, text in texts.items():
        assert expected[name].count(b"\n") == text.count(b"\n")
    cards = [f"{name}.card.json" for name in texts]
    assert mirror.names(local_path(output)) == sorted([*texts, *cards, result.card_path.name])
    count = sum(text.count(b"\n") + bool(text) for text in texts.values())
    card = result.card
    assert (card.files, card.lines, card.sentences) == (5, count, count - 2 * 4)
    assert list(card.hosts.values()) == [count]
    assert card.cpu_seconds > 0
    stored = mirror.read_text(result.card_path)
    assert not any(word in stored for word in ("three", "seven", "text-1"))
    again = translate_text_files(request(model, pattern, output))
    assert again.was_complete
    assert again.card == card


def test_a_stopped_job_continues(model, tmp_path, in_this_process):
    write_texts(tmp_path / "in")
    wanted = request(model, tmp_path / "in" / "*", tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        translate_text_files(wanted, StopAfter(100))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".parts"]
    resumed = StopAfter()
    assert translate_text_files(wanted, resumed).card.lines == 252
    assert resumed.already_done >= 100
    assert not (tmp_path / "out" / ".parts").exists()


@pytest.mark.parametrize("change", ["input", "model", "setting", "format"])
def test_a_changed_job_starts_again(model, tmp_path, in_this_process, change):
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in lines(60)))
    wanted = request(model, source, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        translate_text_files(wanted, StopAfter(20))
    other, options = model, {}
    if change == "input":
        source.write_text("".join(f"{line}\n" for line in lines(60, seed=9)))
    elif change == "model":
        other = write_run(tmp_path / "run", seed=2)
    elif change == "setting":
        options["settings"] = ("decoding.beam_size=2",)
    else:
        options["as_json"] = True
    progress = StopAfter()
    translate_text_files(request(other, source, tmp_path / "out", **options), progress)
    assert progress.already_done == 0
    assert not (tmp_path / "out" / ".parts").exists(), "parts of the first job are removed too"
    first = (tmp_path / "out" / "in.txt").read_text().splitlines()[0]
    assert first.startswith("{") == (change == "format")


def test_an_output_of_another_job_is_replaced_only_on_request(model, tmp_path, in_this_process):
    (tmp_path / "in.txt").write_text("One two.\n")
    source, output = tmp_path / "in.txt", tmp_path / "out"
    translate_text_files(request(model, source, output))
    before = (output / "in.txt").read_text()
    changed = request(model, source, output, as_json=True)
    with pytest.raises(DataError, match=r"in.txt' exists, and it is not .* add --overwrite"):
        translate_text_files(changed)
    assert (output / "in.txt").read_text() == before
    translate_text_files(request(model, source, output, as_json=True, overwrite=True))
    assert json.loads((output / "in.txt").read_text())["text"] == before.removesuffix("\n")
    (output / "in.txt").unlink()
    assert not translate_text_files(changed).was_complete, "a missing output is written again"


def test_all_mistakes_are_reported_at_once(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.txt").write_text("One.\n")
    (tmp_path / "page.html").write_text("<p>One.</p>\n")
    names = ["none-*.txt", "a/same.txt", "b/same.txt", "page.html", "a", "missing.txt"]
    inputs = [tmp_path / name for name in names]
    wanted = request(tmp_path / "no-run", inputs, tmp_path / "a", cluster="HOST:6379")
    with pytest.raises(DataError) as caught:
        translate_text_files(wanted)
    message = str(caught.value)
    for part in (
        "found 15 mistakes",
        "is a local path, but the machines of a cluster",
        "no file matches",
        "2 input files have the name 'same.txt'",
        "page.html' is a document",
        "is a folder; expected files, for example: -i",
        "there is no file",
        "would be replaced by its translation",
        "no-run",
    ):
        assert part in message, part
    with pytest.raises(ArtifactError, match=r"no-run"):
        translate_text_files(request(tmp_path / "no-run", inputs[1], tmp_path / "out"))


def test_a_line_that_is_not_text_is_named(model, tmp_path, in_this_process):
    rows = [line.encode() for line in lines(60)]
    rows[41] = b"caf\xe9"
    (tmp_path / "in.txt").write_bytes(b"\n".join(rows))
    with pytest.raises(DataError, match=r"in.txt: line 42 is not UTF-8: byte 0xE9"):
        translate_text_files(request(model, tmp_path / "in.txt", tmp_path / "out"))


def test_options_of_other_inputs_are_refused(tmp_path):
    words = ["translate", "run", "-i", "*.txt", "--shard", "1/2", "--text", "a", "--threads", "2"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, DataError)
    for part in ("--text, --shard, --threads cannot be used", "-o FOLDER"):
        assert part in str(done.exception)


def test_only_what_is_missing_is_asked_for():
    done = CliRunner().invoke(app, ["translate", "run", "-i", "a.txt", "-i", "b.txt"])
    assert str(done.exception) == "give a folder for the translations: -o FOLDER"


@pytest.mark.slow
def test_the_command_translates_with_several_processes(model, tmp_path):
    write_texts(tmp_path / "in")
    words = ["translate", model, "-i", tmp_path / "in" / "text-[12]*"]
    words += ["-i", tmp_path / "in" / "text-5.zst", "-o", tmp_path / "out", "--workers", "2"]
    command = [sys.executable, "-m", "dragoman", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "3 files, 189 lines, engine ctranslate2" in done.stderr
    expected = expected_texts(model, tmp_path / "in", tmp_path)
    for name in ("text-1.txt", "text-2.gz", "text-5.zst"):
        assert unpack(tmp_path / "out" / name) == expected[name]


def test_parts_are_removed_also_if_only_they_are_left(model, folder_url, tmp_path, in_this_process):
    source = local_path(f"{folder_url}/in.txt")
    (tmp_path / "in.txt").write_text("One two.\n")
    link_or_copy(tmp_path / "in.txt", source)
    wanted = request(model, f"{folder_url}/in.txt", f"{folder_url}/out")
    result = translate_text_files(wanted)
    link_or_copy(tmp_path / "in.txt", result.folder / ".parts" / "in.txt" / "key" / "text")
    remove(result.card_path)
    assert translate_text_files(wanted).was_complete
    assert not [name for name in mirror.names(result.folder) if name.startswith(".parts")]


def test_an_empty_translation_of_the_last_line_is_not_damage(
    model, tmp_path, in_this_process, monkeypatch
):
    monkeypatch.setattr(translation_tasks, "render", lambda *_: "")
    (tmp_path / "in.txt").write_text("One two.\nThree.")
    translate_text_files(request(model, tmp_path / "in.txt", tmp_path / "out"))
    assert (tmp_path / "out" / "in.txt").read_text() == "\n"


def test_a_card_that_cannot_be_read_is_written_again(model, tmp_path, in_this_process):
    (tmp_path / "in.txt").write_text("One two.\n")
    wanted = request(model, tmp_path / "in.txt", tmp_path / "out")
    result = translate_text_files(wanted)
    result.card_path.write_text('{"of": "another version"}')
    again = translate_text_files(wanted)
    assert again.was_complete
    assert again.card.lines == 1
    assert json.loads(result.card_path.read_text())["lines"] == 1
