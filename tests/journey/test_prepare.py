"""Do `init`, `prepare` and `corpus show` work as typed?"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.corpus import demo

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def dragoman(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"},
    )


@pytest.fixture
def text(tmp_path):
    demo.write(tmp_path, 1, {"train": 2000})
    return tmp_path


def test_from_two_files_to_a_prepared_folder(text):
    begun = dragoman("init", "mine", "--source", "train.en", "--target", "train.de", cwd=text)
    assert begun.returncode == 0, begun.stderr
    assert begun.stdout.startswith("2,000 pairs, 0 rows that cannot be read. The first:\n")
    assert begun.stdout.count("\n  en  ") == 5
    assert "dragoman prepare mine/recipe.yaml" in begun.stdout
    recipe = (text / "mine" / "recipe.yaml").read_text(encoding="utf-8")
    assert "languages: {source: en, target: de}" in recipe
    assert "preset: tiny  #" in recipe
    assert "  steps: 1500  #" in recipe, "as many as its size asks for, and never fewer"

    again = dragoman("init", "mine", "--source", "train.en", "--target", "train.de", cwd=text)
    assert again.returncode == 3
    assert "exists already" in again.stderr

    done = dragoman(
        "prepare", "mine/recipe.yaml", "tokenizer.vocabulary_size=400", "--workers", "1", cwd=text
    )
    assert done.returncode == 0, done.stderr
    assert "pairs to train on" in done.stdout
    assert "mine/prepared/report.html" in done.stdout
    prepared = text / "mine" / "prepared"
    assert {"manifest.json", "report.html", "report.json", "train-00000.arrow"} <= {
        path.name for path in prepared.iterdir()
    }

    shown = dragoman("corpus", "show", "mine/prepared", "--count", "2", cwd=text)
    assert shown.returncode == 0, shown.stderr
    assert "▁" in shown.stdout


def test_corpus_show_prints_pairs_of_any_format(text):
    first = (text / "train.en").read_text(encoding="utf-8").split("\n")[2]
    shown = dragoman(
        "corpus", "show", "train.en", "train.de", "--start", "3", "--count", "1", cwd=text
    )
    assert shown.stdout.split("\n")[0] == f"       3  {first}"
    assert len(shown.stdout.strip().split("\n")) == 2


def test_what_cannot_be_prepared_is_told(tmp_path):
    (tmp_path / "recipe.yaml").write_text("corpus: {train: [{files: [no.tsv]}]}\n")
    done = dragoman("prepare", "recipe.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "languages.source" in done.stderr
    assert "no file 'no.tsv'" in done.stderr
    assert "Traceback" not in done.stderr


def test_unequal_files_are_told_with_the_first_line_that_is_alone(text):
    with (text / "train.en").open("a", encoding="utf-8") as file:
        file.write("one more\n")
    (text / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\ncorpus: {train: [{files: [train.en, train.de]}]}\n"
    )
    done = dragoman("prepare", "recipe.yaml", "--workers", "1", cwd=text)
    assert done.returncode == 3, done.stderr
    assert "2001" in done.stderr.replace(",", "")


def test_languages_are_read_as_they_are_meant(text):
    shown = dragoman("corpus", "show", "train.en", "train.de", "--languages", "zh-CN-en", cwd=text)
    assert shown.returncode == 3
    assert "expected en-de, or en:pt-BR" in shown.stderr


def test_a_file_without_the_languages_says_so(tmp_path):
    unit = "<tu><tuv xml:lang='fr'><seg>un</seg></tuv><tuv xml:lang='it'><seg>uno</seg></tuv></tu>"
    (tmp_path / "fr.tmx").write_text(
        f"<tmx version='1.4'><header/><body>{unit}</body></tmx>", encoding="utf-8"
    )
    shown = dragoman("corpus", "show", "fr.tmx", cwd=tmp_path)
    assert shown.returncode == 3
    assert "no en segment (1)" in shown.stderr
    shown = dragoman("corpus", "show", "fr.tmx", "--languages", "fr-it", cwd=tmp_path)
    assert shown.stdout == "       1  un\n          uno\n\n"


def test_a_terminal_is_not_steered_by_a_corpus(tmp_path):
    (tmp_path / "x.tsv").write_text("a \x1b]0;gotcha\x07 b\tc\n", encoding="utf-8")
    shown = dragoman("corpus", "show", "x.tsv", cwd=tmp_path)
    assert "\x1b" not in shown.stdout
    assert "gotcha" in shown.stdout


def test_what_the_system_refuses_is_told_without_a_trace(text):
    (text / "file").write_text("x")
    begun = dragoman("init", "file", "--source", "train.en", "--target", "train.de", cwd=text)
    assert begun.returncode == 74
    assert "Traceback" not in begun.stderr
    assert "file" in begun.stderr


def test_prepare_wants_a_file(tmp_path):
    done = dragoman("prepare", "tiny", cwd=tmp_path)
    assert done.returncode == 2
    assert "no file is called 'tiny'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["the command", "all its processes"])
def test_control_c_ends_in_plain_words_and_the_same_command_goes_on(tmp_path, whom):
    demo.write(tmp_path, 1, {"train": 60_000})
    (tmp_path / "recipe.yaml").write_text(
        "preset: tiny\nlanguages: {source: en, target: de}\n"
        "corpus: {train: [{files: [train.en, train.de]}]}\ntokenizer: {vocabulary_size: 400}\n"
    )
    command = [sys.executable, "-m", "dragoman", "prepare", "recipe.yaml", "--workers", "2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    while not (begun := _children(process.pid)):
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(1)  # They are cleaning now.
    (os.kill if whom == "the command" else os.killpg)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 75
    assert "dragoman: stopped; type the same command to go on" in errors
    assert "Traceback" not in errors
    patience = time.monotonic() + 30  # On a busy machine a worker may still be starting.
    while any(map(_is_running, begun)):
        assert time.monotonic() < patience
        time.sleep(0.1)

    done = dragoman("prepare", "recipe.yaml", "--workers", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pairs to train on" in done.stdout


def _children(pid):
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if _fields(path)[1:2] == [str(pid)]
    ]


def _is_running(pid):
    return _fields(Path(f"/proc/{pid}/stat"))[:1] not in ([], ["Z"])


def _fields(path):
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return []
