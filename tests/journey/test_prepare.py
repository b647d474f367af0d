"""The commands `init`, `prepare` and `corpus show`, as a user types them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.corpus import demo
from dragoman.corpus.opening import CorpusRequest
from dragoman.corpus.report.model import Report
from dragoman.errors import DataError
from dragoman.workflow.corpus_pairs import read_pairs
from support import digits

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


@pytest.mark.slow
def test_from_two_files_to_a_prepared_folder(text):
    process = dragoman("init", "mine", "--source", "train.en", "--target", "train.de", cwd=text)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("2,000 pairs, 0 rows that cannot be read. The first pairs:\n")
    assert process.stdout.count("\n  en  ") == 5
    assert "dragoman prepare mine/recipe.yaml" in process.stdout
    recipe = (text / "mine" / "recipe.yaml").read_text(encoding="utf-8")
    assert "languages: {source: en, target: de}" in recipe
    assert recipe.startswith("# yaml-language-server: $schema=recipe.schema.json\n")
    assert (text / "mine" / "recipe.schema.json").exists()
    assert "preset: tiny  #" in recipe
    assert "  steps: 1500  #" in recipe, "as many as the size needs, and never fewer"
    assert "rotary cannot be exported to Hugging Face" in recipe

    again = dragoman("init", "mine", "--source", "train.en", "--target", "train.de", cwd=text)
    assert again.returncode == 3
    assert "exists already" in again.stderr

    done = dragoman(
        "prepare", "mine/recipe.yaml", "tokenizer.vocabulary_size=400", "--workers", "1", cwd=text
    )
    assert done.returncode == 0, done.stderr
    assert "pairs to train on" in done.stdout
    assert "mine/prepared/report.html" in done.stdout
    assert (
        "Next, type: dragoman train mine/recipe.yaml tokenizer.vocabulary_size=400" in done.stdout
    )
    prepared = text / "mine" / "prepared"
    assert {"manifest.json", "report.html", "report.json", "train-00000.arrow"} <= {
        path.name for path in prepared.iterdir()
    }

    shown = dragoman("corpus", "show", "mine/prepared", "--count", "2", cwd=text)
    assert shown.returncode == 0, shown.stderr
    assert "▁" in shown.stdout

    (text / "my terms.tsv").write_text("euros\tEuro\n", encoding="utf-8")
    arguments = ["tokenizer.vocabulary_size=400", "--glossary", "my terms.tsv", "--workers", "1"]
    with_terms = dragoman("prepare", "mine/recipe.yaml", *arguments, cwd=text)
    assert with_terms.returncode == 0, with_terms.stderr
    assert """'corpus.glossary="../my terms.tsv"'""" in with_terms.stdout
    report = Report.model_validate_json((prepared / "report.json").read_bytes())
    assert report.vocabulary.annotated > 10


def test_corpus_show_prints_pairs_of_any_format(text):
    first = (text / "train.en").read_text(encoding="utf-8").split("\n")[2]
    shown = dragoman(
        "corpus", "show", "train.en", "train.de", "--start", "3", "--count", "1", cwd=text
    )
    assert shown.stdout.split("\n")[0] == f"       3  {first}"
    assert len(shown.stdout.strip().split("\n")) == 2


def test_corpus_show_past_the_end_of_a_prepared_folder_counts_the_pairs(tmp_path):
    pairs = [(str(number), str(number)) for number in range(7)]
    digits.write_prepared(tmp_path, pairs, pairs[:1])
    request = CorpusRequest((tmp_path,))
    assert [row.number for row in read_pairs(request, start=7)] == [7]
    with pytest.raises(DataError, match=r"no pair number 8: '.*' has 7 training pairs"):
        read_pairs(request, start=8)


@pytest.mark.slow
def test_a_recipe_that_cannot_be_prepared_is_reported(tmp_path):
    (tmp_path / "recipe.yaml").write_text("corpus: {train: [{files: [no.tsv]}]}\n")
    done = dragoman("prepare", "recipe.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "languages.source" in done.stderr
    assert "no file 'no.tsv'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_unequal_files_are_reported_with_the_first_line_without_a_partner(text):
    with (text / "train.en").open("a", encoding="utf-8") as file:
        file.write("one more\n")
    (text / "recipe.yaml").write_text(
        "languages: {source: en, target: de}\ncorpus: {train: [{files: [train.en, train.de]}]}\n"
    )
    done = dragoman("prepare", "recipe.yaml", "--workers", "1", cwd=text)
    assert done.returncode == 3, done.stderr
    assert "2001" in done.stderr.replace(",", "")


@pytest.mark.slow
def test_ambiguous_languages_are_refused(text):
    shown = dragoman("corpus", "show", "train.en", "train.de", "--languages", "zh-CN-en", cwd=text)
    assert shown.returncode == 3
    assert "expected en-de, or en:pt-BR" in shown.stderr


@pytest.mark.slow
def test_corpus_show_uses_the_languages_of_the_file(tmp_path):
    unit = "<tu><tuv xml:lang='fr'><seg>un</seg></tuv><tuv xml:lang='it'><seg>uno</seg></tuv></tu>"
    (tmp_path / "fr.tmx").write_text(
        f"<tmx version='1.4'><header/><body>{unit}</body></tmx>", encoding="utf-8"
    )
    shown = dragoman("corpus", "show", "fr.tmx", "--languages", "en-de", cwd=tmp_path)
    assert shown.returncode == 3
    assert "no en segment (1)" in shown.stderr
    shown = dragoman("corpus", "show", "fr.tmx", cwd=tmp_path)
    assert shown.stdout == "       1  un\n          uno\n\n"


@pytest.mark.slow
def test_corpus_show_of_a_missing_file_says_so(tmp_path):
    shown = dragoman("corpus", "show", "no.such", cwd=tmp_path)
    assert shown.returncode == 3
    assert "no file" in shown.stderr
    assert "no.such" in shown.stderr
    assert "format" not in shown.stderr


@pytest.mark.slow
def test_control_characters_are_not_printed(tmp_path):
    (tmp_path / "x.tsv").write_text("a \x1b]0;gotcha\x07 b\tc\n", encoding="utf-8")
    shown = dragoman("corpus", "show", "x.tsv", cwd=tmp_path)
    assert "\x1b" not in shown.stdout
    assert "gotcha" in shown.stdout


@pytest.mark.slow
def test_an_error_of_the_system_is_reported_without_a_traceback(text):
    (text / "file").write_text("x")
    process = dragoman("init", "file", "--source", "train.en", "--target", "train.de", cwd=text)
    assert process.returncode == 74
    assert "Traceback" not in process.stderr
    assert "file" in process.stderr


@pytest.mark.slow
def test_prepare_expects_a_file(tmp_path):
    done = dragoman("prepare", "tiny", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no recipe file 'tiny'" in done.stderr


@pytest.mark.parametrize(
    "receiver",
    [
        pytest.param("all its processes", marks=pytest.mark.slow),
        pytest.param("the command", marks=pytest.mark.long),
    ],
)
def test_the_same_command_continues_after_control_c(tmp_path, receiver):
    demo.write(tmp_path, 1, {"train": 40_000})
    (tmp_path / "recipe.yaml").write_text(
        "preset: tiny\nlanguages: {source: en, target: de}\n"
        "corpus: {train: [{files: [train.en, train.de]}]}\ntokenizer: {vocabulary_size: 400}\n"
    )
    command = [sys.executable, "-m", "dragoman", "prepare", "recipe.yaml", "--workers", "2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    while not (workers := _children(process.pid)):
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(1)  # The workers are cleaning now.
    (os.kill if receiver == "the command" else os.killpg)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 75
    assert "dragoman: stopped; type the same command to continue" in errors
    assert "Traceback" not in errors
    deadline = time.monotonic() + 30  # On a busy machine a worker may still be starting.
    while any(map(_is_running, workers)):
        assert time.monotonic() < deadline
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
