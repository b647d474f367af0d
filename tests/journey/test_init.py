"""`dragoman init` finds the languages and columns of a file, or says what to add to the command."""

import os
import shlex
import subprocess
import sys

import pytest

from dragoman.corpus import demo
from dragoman.corpus.opening import CorpusRequest
from dragoman.recipe.files import load_recipe
from dragoman.recipe.parts import Choice
from dragoman.text.languages import LanguagePair
from dragoman.workflow import initialization

ENGLISH = "The weather was so good yesterday that we walked along the river."
GERMAN = "Das Wetter war gestern so gut, dass wir am Fluss spazieren gegangen sind."
FRENCH = "Il faisait si beau hier que nous nous sommes promenés le long de la rivière."
SPANISH = "Ayer hizo tan buen tiempo que dimos un paseo por la orilla del río."


def init(*arguments, cwd):
    process = subprocess.run(
        [sys.executable, "-m", "dragoman", "init", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert "Traceback" not in process.stderr
    return process


def write_tmx(path, units, srclang="fr"):
    body = "".join(
        "<tu>" + "".join(f"<tuv xml:lang='{c}'><seg>{t}</seg></tuv>" for c, t in unit) + "</tu>"
        for unit in units
    )
    text = f"<tmx version='1.4'><header srclang='{srclang}'/><body>{body}</body></tmx>"
    path.write_text(text, encoding="utf-8")


def test_the_languages_of_a_tmx_file_are_used(tmp_path):
    write_tmx(tmp_path / "x.tmx", [(("es", SPANISH), ("fr", FRENCH))])
    process = init("mine", "--source", "x.tmx", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("1 pair, 0 rows that cannot be read. The first pairs:")
    recipe = load_recipe(tmp_path / "mine" / "recipe.yaml")
    assert (recipe.languages.source, recipe.languages.target) == ("fr", "es")


@pytest.mark.slow
def test_a_tmx_file_with_three_languages_asks_for_two(tmp_path):
    write_tmx(tmp_path / "x.tmx", [(("fr", FRENCH), ("es", SPANISH), ("de", GERMAN))])
    process = init("mine", "--source", "x.tmx", cwd=tmp_path)
    assert process.returncode == 3
    assert "contains the languages fr, es, de" in process.stderr
    assert "--languages fr-es" in process.stderr
    assert not (tmp_path / "mine").exists()


@pytest.mark.slow
def test_the_languages_of_an_xliff_file_are_used(tmp_path):
    unit = f"<trans-unit id='1'><source>{ENGLISH}</source><target>{FRENCH}</target></trans-unit>"
    (tmp_path / "x.xlf").write_text(
        "<xliff version='1.2'><file source-language='en' target-language='fr' original='x' "
        f"datatype='plaintext'><body>{unit}</body></file></xliff>",
        encoding="utf-8",
    )
    process = init("mine", "--source", "x.xlf", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    recipe = load_recipe(tmp_path / "mine" / "recipe.yaml")
    assert (recipe.languages.source, recipe.languages.target) == ("en", "fr")


@pytest.mark.slow
def test_untranslated_entries_are_not_called_unreadable(tmp_path):
    entries = f'msgid "{ENGLISH}"\nmsgstr "{FRENCH}"\n\n'
    entries += "".join(f'msgid "Button {n}"\nmsgstr ""\n\n' for n in range(5))
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: fr\\n"\n\n'
    (tmp_path / "x.po").write_text(header + entries, encoding="utf-8")
    process = init("mine", "--source", "x.po", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("1 pair, 5 untranslated, 0 rows that cannot be read.")


def test_the_format_of_the_corpus_is_also_that_of_a_validation_file_that_looks_the_same(tmp_path):
    for name in ("train.dat", "valid.dat"):
        (tmp_path / name).write_text(f"{ENGLISH}\t{GERMAN}\n", encoding="utf-8")
    request = CorpusRequest((tmp_path / "train.dat",), LanguagePair("en", "de"), format="tsv")
    result = initialization.init(tmp_path / "mine", request, validation=[tmp_path / "valid.dat"])
    corpus = load_recipe(result.recipe).corpus
    assert corpus.train[0].format == corpus.validation[0].format == Choice(name="tsv")


@pytest.mark.slow
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_and_two_columns_of_a_csv_file_are_detected(tmp_path, delimiter):
    rows = [("English text", "Texte français"), (ENGLISH, FRENCH), ("A dog.", "Un chien.")]
    text = "".join(f"{source}{delimiter}{target}\n" for source, target in rows)
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    process = init("mine", "--source", "x.csv", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("2 pairs,")
    entry = load_recipe(tmp_path / "mine" / "recipe.yaml").corpus.train[0]
    assert entry.format.options["source_column"] == "English text"


@pytest.mark.slow
def test_the_columns_of_a_csv_file_can_be_named(tmp_path):
    (tmp_path / "x.csv").write_text(f"id;a;b\n1;{FRENCH};{SPANISH}\n", encoding="utf-8")
    process = init("mine", "--source", "x.csv", cwd=tmp_path)
    assert process.returncode == 3
    assert "has the columns: id, a, b" in process.stderr
    assert "--source-column and --target-column" in process.stderr
    assert "recipe" not in process.stderr, "there is no recipe yet"
    columns = ["--source-column", "a", "--target-column", "b", "--delimiter", ";"]
    process = init("mine", "--source", "x.csv", *columns, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    recipe = load_recipe(tmp_path / "mine" / "recipe.yaml")
    assert recipe.corpus.train[0].format.options == {
        "delimiter": ";", "source_column": "a", "target_column": "b",
    }  # fmt: skip
    assert (recipe.languages.source, recipe.languages.target) == ("fr", "es")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "cvs"], "did you mean 'csv'?"),
        (["--delimiter", ";;"], "cannot be read as csv"),
        (["--languages", "english"], "expected en-de"),
    ],
)
def test_a_wrong_option_is_reported_without_speaking_of_a_recipe(tmp_path, arguments, message):
    (tmp_path / "x.csv").write_text(f"a,b\n{ENGLISH},{FRENCH}\n", encoding="utf-8")
    process = init("mine", "--source", "x.csv", *arguments, cwd=tmp_path)
    assert process.returncode == 3
    assert message in process.stderr
    assert "recipe" not in process.stderr


@pytest.mark.slow
def test_a_tab_can_be_written_as_backslash_t(tmp_path):
    (tmp_path / "x.csv").write_text(f"a\tb\n{ENGLISH}\t{FRENCH}\n", encoding="utf-8")
    process = init("mine", "--source", "x.csv", "--delimiter", r"\t", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    entry = load_recipe(tmp_path / "mine" / "recipe.yaml").corpus.train[0]
    assert entry.format.options["delimiter"] == "\t"


@pytest.mark.slow
def test_columns_named_after_languages_state_the_languages(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"fr": "oui", "es": "sí", "n": 1}\n', encoding="utf-8")
    process = init("mine", "--source", "x.jsonl", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    recipe = load_recipe(tmp_path / "mine" / "recipe.yaml")
    assert (recipe.languages.source, recipe.languages.target) == ("fr", "es")


@pytest.mark.slow
def test_languages_that_cannot_be_detected_must_be_given(tmp_path):
    (tmp_path / "x.tsv").write_text("1\t2\n3\t4\n", encoding="utf-8")
    process = init("mine", "--source", "x.tsv", cwd=tmp_path)
    assert process.returncode == 3
    assert "the source and the target language" in process.stderr
    assert "--languages en-de" in process.stderr
    assert not (tmp_path / "mine").exists()
    process = init("mine", "--source", "x.tsv", "--languages", "fr-es", cwd=tmp_path)
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_the_comments_of_the_recipe_are_true_for_two_pairs(tmp_path):
    (tmp_path / "x.tsv").write_text(f"{ENGLISH}\t{GERMAN}\nA dog.\tEin Hund.\n", encoding="utf-8")
    assert init("mine", "--source", "x.tsv", cwd=tmp_path).returncode == 0
    text = (tmp_path / "mine" / "recipe.yaml").read_text(encoding="utf-8")
    assert "26 passes" not in text
    assert "for 2 pairs" in text.split("corpus:")[0]
    assert "vocabulary_size: 1000" in text
    steps = next(line for line in text.split("\n") if "steps:" in line)
    assert "the minimum, about" in steps
    load_recipe(tmp_path / "mine" / "recipe.yaml")


@pytest.fixture
def text(tmp_path):
    demo.write(tmp_path, 1, {"train": 200, "validation": 20, "test": 20})
    return tmp_path


@pytest.mark.slow
def test_validation_test_and_preset_can_be_given(text):
    process = init(
        "mine", "--source", "train.en", "--target", "train.de", "--preset", "small",
        "--validation", "validation.en", "--validation", "validation.de",
        "--test", "test.en", "--test", "test.de", cwd=text,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    recipe_text = (text / "mine" / "recipe.yaml").read_text(encoding="utf-8")
    assert "preset: small  #" in recipe_text
    assert "held_out" not in recipe_text
    recipe = load_recipe(text / "mine" / "recipe.yaml")
    assert recipe.corpus.validation[0].files == ("../validation.en", "../validation.de")
    assert recipe.corpus.test[0].files == ("../test.en", "../test.de")
    process = init(
        "other", "--source", "train.en", "--target", "train.de", "--preset", "smal", cwd=text
    )
    assert process.returncode == 3
    assert "did you mean 'small'?" in process.stderr


@pytest.mark.slow
def test_swapped_sides_are_reported(tmp_path):
    (tmp_path / "x.tsv").write_text(f"{GERMAN}\t{ENGLISH}\n" * 3, encoding="utf-8")
    process = init("mine", "--source", "x.tsv", "--languages", "en-de", cwd=tmp_path)
    assert process.returncode == 0
    assert "Warning: the source looks like de and the target like en" in process.stderr


@pytest.mark.slow
def test_one_file_given_twice_is_reported(tmp_path):
    (tmp_path / "x.en").write_text(f"{ENGLISH}\n", encoding="utf-8")
    process = init("mine", "--source", "x.en", "--target", "x.en", cwd=tmp_path)
    assert "Warning: source and target are the same file" in process.stderr


@pytest.mark.slow
def test_demo_and_files_exclude_each_other(text):
    process = init("mine", "--demo", "--source", "train.en", cwd=text)
    assert process.returncode == 3
    assert "--demo writes its own corpus" in process.stderr
    assert not (text / "mine").exists()


@pytest.mark.slow
def test_the_next_command_is_quoted_for_the_shell(text):
    folder = "a b$(touch pwned)"
    process = init(folder, "--source", "train.en", "--target", "train.de", cwd=text)
    assert process.returncode == 0, process.stderr
    assert f"dragoman prepare {shlex.quote(folder + '/recipe.yaml')}" in process.stdout
