"""Translate documents from the command line, with a model that writes nonsense.

The model is random. Its words do not matter: the documents must stay whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import dragoman
from dragoman.cli.app import app
from dragoman.errors import DataError
from dragoman.formats.base.folder import open_document
from dragoman.interop.ctranslate2 import export
from dragoman.workflow.documents import find_documents
from support.translator_models import write_run

PO = """\
# A comment.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: de\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: main.c:7
#, c-format
msgid "one two %s three"
msgstr ""

msgid "seven"
msgstr "sieben"

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    export(write_run(folder / "run"), folder / "exported")
    return folder / "exported"


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "messages.po").write_text(PO, encoding="utf-8")
    (folder / "deep" / "notes.properties").write_text(
        "a=one two\n\nb=three four\n", encoding="utf-8"
    )
    (folder / "ignored.bin").write_bytes(b"\0")
    return folder


def translate(run, *arguments, code=0):
    process = subprocess.run(
        [sys.executable, "-m", "dragoman", "translate", str(run), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert process.returncode == code, process.stderr
    return process


@pytest.mark.slow
def test_a_folder_is_translated_and_keeps_its_structure(run, documents, tmp_path):
    output = tmp_path / "out"
    process = translate(run, documents, "-o", output)
    assert "messages.po: 4 texts: 3 machine-translated, 1 already translated" in process.stderr
    written = (output / "messages.po").read_text(encoding="utf-8")
    assert written.startswith(PO.partition("#:")[0])
    assert 'msgstr "sieben"' in written
    units = {unit.key: unit for unit in open_document(output / "messages.po").units()}
    assert all(unit.target for unit in units.values())
    assert sum(unit.state == "needs_review" for unit in units.values()) == 3
    assert written.count("%s") == 2
    assert (output / "deep" / "notes.properties").read_text(encoding="utf-8").count("\n") == 3
    assert not (output / "ignored.bin").exists()
    again = translate(run, documents, "-o", output)
    assert again.stderr.count("already complete; nothing to do") == 2
    (output / "messages.po").write_text("damaged", encoding="utf-8")
    repaired = translate(run, documents, "-o", output)
    assert repaired.stderr.count("already complete; nothing to do") == 1
    assert (output / "messages.po").read_text(encoding="utf-8") == written


def test_a_dry_run_counts_and_writes_nothing(run, documents, tmp_path):
    process = translate(run, documents, "-o", tmp_path / "out", "--dry-run")
    assert "messages.po: 4 texts, 31 characters to translate" in process.stderr
    assert "2 documents: 6 texts" in process.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_broken_document_is_reported_and_does_not_stop_the_others(run, documents, tmp_path):
    (documents / "broken.po").write_text('msgid "a\n', encoding="utf-8")
    process = translate(run, documents, "-o", tmp_path / "out", code=DataError.exit_code)
    assert "broken.po: not translated." in process.stderr
    assert "1 of 3 documents were not translated" in process.stderr
    assert (tmp_path / "out" / "messages.po").exists()
    assert not (tmp_path / "out" / "broken.po").exists()


@pytest.mark.slow
def test_flagged_texts_are_listed_and_strict_ends_with_an_error(run, documents, tmp_path):
    path = documents / "messages.po"
    process = translate(run, path, "-o", tmp_path / "out", "--json", "--strict", code=7)
    (summary,) = json.loads(process.stdout)["documents"]
    assert summary["flagged"] == len(summary["flagged_units"]) > 0
    assert {unit["line"] for unit in summary["flagged_units"]} <= {10, 17}
    assert "flagged; the list is in the summary (--json)" in process.stderr


def test_memory_and_glossary_are_used(run, documents, tmp_path):
    (tmp_path / "terms.tsv").write_text("three\tdrei\n", encoding="utf-8")
    memory = PO.replace('msgid "seven"\nmsgstr "sieben"', 'msgid "%d file"\nmsgstr "%d Datei"')
    (tmp_path / "memory.po").write_text(memory, encoding="utf-8")
    with dragoman.Translator.load(run) as translator:
        report = dragoman.translate_files(
            translator,
            [documents],
            tmp_path / "out",
            glossary=tmp_path / "terms.tsv",
            memory=[tmp_path / "memory.po"],
            memory_threshold=1.0,
        )
        planned = dragoman.translate_files(
            translator,
            [documents],
            tmp_path / "planned",
            memory=[tmp_path / "memory.po"],
            memory_threshold=1.0,
            dry_run=True,
        )
    assert planned.total("memory") == 1
    assert planned.total("machine") == report.total("machine")
    assert planned.total("characters") == report.total("characters")
    assert report.total("memory") == 1
    assert report.total("terms") == 2
    assert {document.term_method for document in report.documents} == {"inserted"}
    assert report.total("terms_used") > 0
    assert "drei" in (tmp_path / "out" / "messages.po").read_text(encoding="utf-8")


def test_the_summary_of_a_moved_document_has_its_new_path(run, documents, tmp_path):
    with dragoman.Translator.load(run) as translator:
        dragoman.translate_files(translator, [documents / "messages.po"], tmp_path / "out")
        documents.rename(tmp_path / "moved")
        moved = tmp_path / "moved" / "messages.po"
        report = dragoman.translate_files(translator, [moved], tmp_path / "out")
    (document,) = report.documents
    assert document.was_complete
    assert document.source == str(moved)


def test_a_long_text_without_an_option_is_explained(tmp_path):
    text = "one two three " * 30  # Longer than the name of a file can be.
    done = CliRunner().invoke(app, ["translate", str(tmp_path), text])
    assert isinstance(done.exception, DataError)
    assert "To translate a text, type: dragoman translate" in str(done.exception)


@pytest.mark.slow
def test_what_cannot_be_meant_is_refused_before_the_model_is_loaded(run, documents, tmp_path):
    path = documents / "messages.po"
    assert "need an output folder" in translate(run, path, code=3).stderr
    missing = translate(run, "missing.po", "-o", tmp_path, code=3).stderr
    assert "There is no such file" in missing
    same = translate(run, path, "-o", documents, code=3).stderr
    assert "is the file itself" in same
    plain = translate(run, "-i", path, "-o", tmp_path / "out.po", code=3).stderr
    assert "dragoman translate" in plain
    assert not (tmp_path / "out.po").exists()


@pytest.mark.slow
def test_the_output_is_a_folder(run, documents, tmp_path):
    path = documents / "messages.po"
    assert "expected a folder" in translate(run, path, "-o", tmp_path / "de.po", code=3).stderr
    (tmp_path / "file").touch()
    assert "expected a folder" in translate(run, path, "-o", tmp_path / "file", code=3).stderr
    assert not (tmp_path / "de.po").exists()


def test_options_for_documents_need_documents(run):
    assert "are for documents" in translate(run, "--strict", "--text", "one", code=3).stderr


def test_an_output_inside_of_the_folder_is_not_translated_again(documents):
    output = documents / "de"
    (output / "deep").mkdir(parents=True)
    (output / "messages.po").write_text(PO, encoding="utf-8")
    pairs = find_documents([documents], output)
    assert [path.relative_to(documents).as_posix() for path, _ in pairs] == [
        "deep/notes.properties",
        "messages.po",
    ]


def test_a_document_that_cannot_be_written_does_not_stop_the_others(run, documents, tmp_path):
    (tmp_path / "out" / "deep" / "notes.properties").mkdir(parents=True)
    with dragoman.Translator.load(run) as translator:
        report = dragoman.translate_files(translator, [documents], tmp_path / "out")
    (failed,) = report.errors
    assert failed.source.endswith("notes.properties")
    assert "Is a directory" in failed.error
    assert (tmp_path / "out" / "messages.po").is_file()
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_two_documents_never_have_the_same_output(documents, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "messages.po").write_text(PO, encoding="utf-8")
    with pytest.raises(DataError, match="have the same output"):
        find_documents([documents, other], tmp_path / "out")
    found_twice = find_documents([documents, documents / "messages.po"], tmp_path / "out")
    assert len(found_twice) == 2
