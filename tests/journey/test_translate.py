"""Use a run from the command line: translate, evaluate, export, import."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import time
from typing import get_args

import pytest

from dragoman.cli.display.translation import translation_progress
from dragoman.errors import ArtifactError, DataError
from dragoman.formats.base.folder import extensions
from dragoman.inference.translator import Translator
from dragoman.interop.folder import Quantization, read_export
from dragoman.workflow import exporting, translation
from dragoman.workflow.translation import FileShard, TranslationProgress, translate_file
from support import digits

pytestmark = pytest.mark.slow  # They use a trained run; test_train.py is in `make check`.


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that is hardly trained; its translations do not matter here."""
    folder = tmp_path_factory.mktemp("digits")
    training = {"steps": 20, "validate_every": 20, "save_every": 20, "average_checkpoints": 1}
    recipe = digits.write(folder, training=training)
    process = command("train", recipe)
    assert process.returncode == 0, process.stderr
    exporting.export(folder / "run")  # So that no test below loads torch.
    return folder / "run"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    lines = [" ".join(str(number)) for number in range(1000, 1400)]
    lines[7:7] = ["", "  ", "\t1 2 3 \r"]
    path = tmp_path_factory.mktemp("text") / "in.txt"
    path.write_bytes("\n".join(lines).encode())  # The last line has no newline.
    return path


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, arguments)],
        capture_output=True,
        env=os.environ | {"COLUMNS": "80"},
        **options,
    )


def test_each_line_gives_one_line(run, text):
    process = command("translate", run, input=text.read_bytes())
    assert process.returncode == 0, process.stderr
    source, target = text.read_bytes().split(b"\n"), process.stdout.split(b"\n")
    assert len(target) == len(source) + 1, "every line ends with a newline"
    assert target[7:9] == [b"", b"  "]
    assert target[9].startswith(b"\t")
    assert target[9].endswith(b" \r")


def test_the_shards_of_a_file_are_the_file(run, text, tmp_path):
    whole = tmp_path / "whole.txt"
    assert command("translate", run, "-i", text, "-o", whole).returncode == 0
    assert whole.read_bytes().count(b"\n") == text.read_bytes().count(b"\n")
    for number in range(1, 8):
        options = ("-i", text, "-o", tmp_path / "part.txt", "--shard", f"{number}/7")
        assert command("translate", run, *options).returncode == 0
    parts = sorted(tmp_path.glob("part.txt.*-of-00007"))
    assert b"".join(part.read_bytes() for part in parts) == whole.read_bytes()
    card = json.loads((tmp_path / "whole.txt.card.json").read_text())
    assert card["lines"] == len(text.read_bytes().split(b"\n"))
    assert not list(tmp_path.glob(".*")), "nothing is left over"


def test_finished_parts_are_not_translated_again(run, text, tmp_path, monkeypatch):
    monkeypatch.setattr(translation, "PART_BYTES", 200)
    translator = Translator.load(run)
    output = tmp_path / "out.txt"
    translated = []
    stream = translator.stream

    def counting(lines, **options):
        translated.extend(lines)
        return stream(lines, **options)

    translator.stream = counting
    reports = []

    def stop_after_five(progress):
        reports.append(progress)
        if len(reports) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translate_file(translator, text, output, on_progress=stop_after_five)
    assert not output.exists(), "some parts exist, the file does not"
    assert 0 < len(translated) < 403
    result = translate_file(translator, text, output)
    assert (result.path, result.card.lines, result.was_complete) == (output, 403, False)
    assert len(translated) == 403, "every line once"
    whole = output.read_bytes()
    assert translate_file(translator, text, output).was_complete
    assert len(translated) == 403, "everything existed"
    output.write_bytes(whole[:-1])
    translate_file(translator, text, output)
    assert output.read_bytes() == whole, "a damaged file is translated again"
    changed = Translator.load(run, ["decoding.beam_size=2"])
    assert not translate_file(changed, text, output).was_complete, "other settings, other text"
    card = json.loads(output.with_name("out.txt.card.json").read_text())
    assert card["decoding"]["beam_size"] == 2


def test_any_number_of_shards_contains_every_line_once(text):
    size = text.stat().st_size
    for total in (1, 2, 3, 10, 64, 1000):
        with text.open("rb") as file:
            shards = [FileShard(number, total) for number in range(1, total + 1)]
            ranges = [translation._shard_range(file, shard) for shard in shards]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == size
        assert all(one[1] == two[0] for one, two in itertools.pairwise(ranges))
        for start, _ in ranges:
            assert start in (0, size) or text.read_bytes()[start - 1 : start] == b"\n"


def test_a_killed_translation_is_resumed(run, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("".join(" ".join(str(number)) + "\n" for number in range(40000)))
    arguments = [sys.executable, "-m", "dragoman", "translate", str(run), "decoding.beam_size=1"]
    arguments += ["-i", str(source), "-o", str(tmp_path / "out.txt")]
    kills = 0
    for wait in (2.5, 3.5):
        child = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.wait()
    subprocess.run(arguments, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "out.txt").read_bytes().count(b"\n") == 40000
    assert kills, "the machine was too fast"
    undisturbed = [*arguments[:-1], str(tmp_path / "again.txt")]
    subprocess.run(undisturbed, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "out.txt").read_bytes()


def test_mistakes_are_explained(run, text, tmp_path):
    for arguments, code, message in (
        ((run, "-i", text), 3, b"both --input and --output"),
        ((run, "-i", text, "-o", tmp_path / "o", "--shard", "9/3"), 3, b"for example 3/64"),
        ((run, "model.width=3"), 2, b"only settings of decoding"),
        ((run, "decoding.beem_size=3"), 2, b"beam_size"),
        ((tmp_path / "nothing",), 4, b"no folder"),
        ((run, "--language", "fi"), 3, b"no token for the language"),
    ):
        process = command("translate", *arguments, input=b"1 2\n")
        assert process.returncode == code, process.stderr
        assert message in process.stderr, process.stderr
    process = command("translate", run, input=b"1 2\n\xff\n")
    assert process.returncode == 3
    assert b"line 2 is not UTF-8" in process.stderr


def test_an_error_before_the_first_line_is_printed_without_a_progress_bar(run, text, tmp_path):
    process = command("translate", run, "-i", "none.txt", "-o", "out.txt", cwd=tmp_path)
    message = b"dragoman: there is no file 'none.txt'; expected a text file\n"
    assert (process.returncode, process.stderr) == (3, message)
    process = command("translate", run, "-i", text, "-o", text)
    message = b"dragoman: '%b' is the source file itself; choose another output\n"
    assert (process.returncode, process.stderr) == (3, message % bytes(text))


def test_the_progress_bar_moves(capfd):
    with translation_progress() as on_progress:
        on_progress(TranslationProgress(0, 200, 0))
        on_progress(TranslationProgress(100, 200, 5))
    assert "50 %" in capfd.readouterr().err
    with translation_progress():
        pass
    assert capfd.readouterr().err == "", "nothing happened, nothing is shown"


def test_an_unknown_quantization_is_a_usage_error(run):
    process = command("export", run, "--quantization", "int4")
    assert process.returncode == 2
    assert b"Invalid value for '--quantization'" in process.stderr
    for allowed in get_args(Quantization):
        assert b"'%b'" % allowed.encode() in process.stderr
    assert b"recipe" not in process.stderr


def test_json_has_all_fields(run):
    process = command("translate", run, "--json", "decoding.num_hypotheses=2", input=b"1 2 3\n\n")
    first, second = map(json.loads, process.stdout.splitlines())
    assert set(first) >= {"text", "score", "tokens", "alignment", "flags", "alternatives"}
    assert len(first["alternatives"]) == 1
    assert second["text"] == ""


def test_evaluate_export_and_translate_again(run, text, tmp_path):
    sources, references = tmp_path / "s", tmp_path / "r"
    sources.write_text("1 2 3\n4 5 6\n7 8\n")
    references.write_text("3 2 1\n6 5 4\n8 7\n")
    process = command(
        "evaluate", run, "--source", sources, "--reference", references, "--json", tmp_path / "j"
    )
    assert process.returncode == 0, process.stderr
    assert b"BLEU" in process.stdout
    assert b"nrefs:1" in process.stdout.replace(b"\n", b"")
    assert json.loads((tmp_path / "j").read_text())["sentences"] == 3
    exported = tmp_path / "exported"
    process = command("export", run, "--to", "ctranslate2", "-o", exported)
    assert process.returncode == 0, process.stderr
    source = text.read_bytes()
    again = command("translate", exported, input=source)
    assert again.stdout == command("translate", run, input=source).stdout


def test_compressed_input_is_read(run, text, tmp_path):
    packed = tmp_path / "in.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    translator = Translator.load(run)
    translate_file(translator, text, tmp_path / "plain.txt")
    translate_file(translator, packed, tmp_path / "unpacked.txt")
    assert (tmp_path / "unpacked.txt").read_bytes() == (tmp_path / "plain.txt").read_bytes()
    with pytest.raises(DataError, match=r"use: -o .*out\.txt"):
        translate_file(translator, text, tmp_path / "out.txt.gz")


@pytest.mark.parametrize(
    "name", ["x.po", "x.XLIFF", "x.html", "x.md", "x.docx", "x.srt", "x.po.gz"]
)
def test_a_document_is_refused_unless_plain(run, tmp_path, name):
    source, output = tmp_path / name, tmp_path / "out"
    content = b'msgid "1 2"\nmsgstr ""\n'
    source.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    process = command("translate", run, "-i", source, "-o", output)
    assert process.returncode == 3
    assert b"is a document" in process.stderr
    assert not output.exists()
    translator = Translator.load(run)
    translate_file(translator, source, output, plain=True)
    assert output.read_bytes().count(b"\n") == 2


def test_every_format_is_refused_line_by_line_with_what_to_type(tmp_path):
    for extension in sorted(extensions() - {".txt"} | {".yaml", ".csv"}):
        path = tmp_path / f"x{extension}.gz"
        path.touch()
        with pytest.raises(DataError, match="add --plain") as refusal:
            translation.check_source(path)
        unpacked = f"unpack it and type: dragoman translate RUN {path.with_suffix('')} -o FOLDER"
        advice = unpacked if extension in extensions() else "does not read this format yet"
        assert advice in str(refusal.value)
        translation.check_source(path, plain=True)
    (tmp_path / "x.txt").touch()
    translation.check_source(tmp_path / "x.txt")


def test_one_text_is_translated(run):
    process = command("translate", run, "--text", " 1 2 3")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith(b" ")
    assert process.stdout.count(b"\n") == 1


def test_other_arguments_are_refused_with_a_suggestion(run, text, tmp_path):
    for argument, advice in (
        ("a sentence; rm x", b"--text 'a sentence; rm x'"),
        (run, f"--ensemble {run}".encode()),
    ):
        process = command("translate", run, argument, input=b"1 2\n")
        assert process.returncode == 3
        assert b"expected documents, or settings as KEY=VALUE" in process.stderr
        assert advice in process.stderr.replace(b"\n", b" ")
    process = command("translate", run, text)
    assert process.returncode == 3
    assert b"documents need an output folder (-o FOLDER)" in process.stderr


def test_an_ensemble_is_given_by_an_option(run):
    process = command("translate", run, "--ensemble", run, input=b"1 2\n")
    assert process.returncode == 0, process.stderr
    assert process.stdout.count(b"\n") == 1


def test_a_folder_that_contains_the_run_suggests_it(run):
    process = command("translate", run.parent, input=b"1 2\n")
    assert process.returncode == 4
    assert f"did you mean {run}?".encode() in process.stderr


def interactive(run):
    """Start the command with a terminal as its stdin."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "translate", str(run)],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(terminal)
    return controller, process


def test_a_terminal_gets_a_prompt_and_a_hint(run):
    controller, process = interactive(run)
    os.write(controller, b"1 2 3\n\x04")
    output, messages = process.communicate(timeout=180)
    os.close(controller)
    assert process.returncode == 0, messages
    assert output.count(b"\n") == 1
    assert b"Loading" in messages
    assert b"press Ctrl-D" in messages
    assert messages.count(b"> ") == 2


def test_the_hint_after_ctrl_c_fits_the_terminal(run):
    controller, process = interactive(run)
    while b"> " not in os.read(process.stderr.fileno(), 1000):
        pass
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=180)
    os.close(controller)
    assert b"press Ctrl-D" in messages
    assert b"same command" not in messages


def test_an_export_is_not_replaced_by_another_quantization(run, tmp_path):
    folder = tmp_path / "an export"
    exporting.export(run, output=folder, quantization="int8")
    with pytest.raises(ArtifactError, match=r"quantization int8.*'.*an export' --force"):
        exporting.export(run, output=folder)
    assert read_export(folder).facts.quantization == "int8"
    result = exporting.export(run, output=folder, force=True)
    assert (result.folder, result.to, result.quantization) == (folder, "ctranslate2", "float32")
    assert read_export(folder).facts.quantization == "float32"
    exporting.export(run, output=folder)  # The same again.


def test_an_export_has_a_model_card(run, tmp_path):
    folder = exporting.export(run, output=tmp_path / "export").folder
    card = (folder / "README.md").read_text()
    assert "language: [qaa, qab]" in card
    assert "BLEU" in card
    assert "License: not stated" in card
    (folder / "README.md").write_text("edited by its user")
    read_export(folder)
