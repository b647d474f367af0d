"""`dragoman keys` and `dragoman suggestions`: what they print, write and refuse."""

import json
import stat
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.corpus.opening import CorpusRequest
from dragoman.errors import DataError
from dragoman.serving.state import State
from dragoman.serving.stores.glossaries import Dictionary
from dragoman.workflow.corpus_pairs import read_pairs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


def run(*arguments):
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_a_key_is_printed_once_and_works(folder):
    added = run(
        *("keys", "add", "weblate", "--state", "state", "--characters-per-month", "1000"),
        *("--requests-per-minute", "60", "--scope", "translate", "--scope", "glossaries"),
    )
    key = added.stdout.strip()
    assert "shown only now" in added.stderr
    state = State(folder)
    known = state.find_key(key)
    assert (known.name, known.scopes) == ("weblate", {"translate", "glossaries"})
    assert (known.characters_per_month, known.requests_per_minute) == (1000, 60)
    state.charge(known.id, 250)
    state.close()
    listed = run("keys", "list", "--state", "state").stdout
    assert f"{known.id}  weblate" in listed
    assert "    glossaries, translate\n" in listed
    assert "    250 of 1,000 characters this month, 60 per minute\n" in listed
    assert key not in listed
    assert key.split("_")[2] not in listed
    assert known.id in run("keys", "remove", known.id, "--state", "state").stdout
    assert run("keys", "list", "--state", "state").stdout == ""


def test_a_removed_key_loses_its_glossaries(folder):
    run("keys", "add", "a", "--state", "state")
    state = State(folder)
    (key,) = state.keys()
    assert key.scopes == {"translate", "documents", "glossaries", "suggest"}
    state.add_glossary(key.id, "terms", [Dictionary("en", "de", (("a", "b"),))])
    job = state.add_document(key.id, "a.txt", "de")
    run("keys", "remove", key.id, "--state", "state")
    assert state.glossaries(key.id) == []
    state.expire_documents()
    assert not job.folder.exists()
    state.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "a", "--scope", "translat"), "did you mean 'translate'"),
        (("add", "\x1b"), "name of a key"),
        (("remove", "no such"), "there is no key with the id 'no such'. To list"),
    ],
)
def test_mistakes_are_explained(folder, arguments, message):
    State(folder).close()
    with pytest.raises(DataError, match=message):
        run("keys", *arguments, "--state", "state")


@pytest.mark.parametrize("arguments", [("keys", "list"), ("suggestions", "export")])
def test_a_missing_state_is_not_created(folder, arguments):
    with pytest.raises(DataError, match="there is no server state in 'state'"):
        run(*arguments, "--state", "state")
    assert not folder.exists()


def test_the_command_needs_no_extra(folder):
    """Only the standard library and the core: an operator adds keys on any machine."""
    code = (
        "import sys\n"
        "for name in ('fastapi', 'starlette', 'prometheus_client', 'torch', 'ctranslate2'):\n"
        "    sys.modules[name] = None\n"
        "sys.argv = ['dragoman', 'keys', 'add', 'a', '--state', 'state']\n"
        "from dragoman.cli.app import main\nmain()\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("dgm_")


def add_suggestions(folder, *rows):
    state = State(folder, now=lambda: 1_760_000_000.0)
    for source, target, text, suggestion in rows:
        state.add_suggestion(
            "",
            source=source,
            target=target,
            source_text=text,
            machine_text="machine\ttext",
            suggestion=suggestion,
            model="v1",
        )
    state.decide_suggestions([one.id for one in state.suggestions()], "approved", "alice")
    state.close()


PAIRS = [("en", "de", '"Two\n\tlines"', "Zwei\u2028Zeilen"), ("en", "de", "dix\u00a0%", "a  b")]


def test_an_export_is_a_corpus(folder):
    add_suggestions(folder, *PAIRS)
    assert "Wrote 2 suggestions" in run("suggestions", "export", "--state", "state").stdout
    output = folder.parent / "corrections.tsv"
    assert output.read_text(encoding="utf-8") == (
        '"Two lines"\tZwei Zeilen\tmachine text\tv1\t2025-10-09T08:53:20Z\n'
        "dix\u00a0%\ta  b\tmachine text\tv1\t2025-10-09T08:53:20Z\n"
    )
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    pairs = read_pairs(CorpusRequest((output,)))
    assert [(row.source, row.target) for row in pairs] == [
        ('"Two lines"', "Zwei Zeilen"),
        ("dix\u00a0%", "a  b"),
    ]


def test_json_lines_keep_the_text(folder):
    add_suggestions(folder, *PAIRS)
    run("suggestions", "export", "--state", "state", "-o", "new.jsonl", "--remove")
    lines = (folder.parent / "new.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    rows = [json.loads(line) for line in lines]
    assert [(row["en"], row["de"]) for row in rows] == [pair[2:] for pair in PAIRS]
    assert rows[0]["machine_translation"] == "machine\ttext"
    with pytest.raises(DataError, match="there are no approved suggestions"):
        run("suggestions", "export", "--state", "state")


def test_one_language_pair_is_exported(folder):
    add_suggestions(folder, *PAIRS, ("en", "pt-BR", "a", "b"))
    with pytest.raises(DataError, match=r"en-de \(2\), en:pt-BR \(1\).*--languages en-de"):
        run("suggestions", "export", "--state", "state")
    with pytest.raises(DataError, match="no suggestions of the pair 'de-en'; found: en-de"):
        run("suggestions", "export", "--state", "state", "--languages", "de-en")
    run("suggestions", "export", "--state", "state", "--languages", "EN:PT-br", "--remove")
    assert len((folder.parent / "corrections.tsv").read_text().splitlines()) == 1
    state = State(folder)
    assert [entry.target for entry in state.suggestions()] == ["de", "de"]
    state.close()
    with pytest.raises(DataError, match=r"expected a file \.tsv or \.jsonl"):
        run("suggestions", "export", "--state", "state", "-o", "x.xlsx")
