"""`dragoman suggestions`: importing corrected files, listing, reviewing and deciding."""

import getpass
import os
import stat
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.errors import DataError
from dragoman.recipe.schema import LanguagesRecipe
from dragoman.serving.state import State
from dragoman.serving.suggestion_export import approved_pairs

SOURCES = [
    "The train to the harbor leaves in the early morning.",
    "The new timetable is on the wall of the station.",
    "Every passenger needs a ticket for this train.",
]
MACHINE = [
    "Der Zug zum Hafen fährt am frühen Morgen.",
    "Der neue Fahrplan ist an der Wand des Bahnhofs.",
    "Jeder Passagier braucht ein Ticket für diesen Zug.",
]
GOOD = [
    "Die Bahn zum Hafen fährt am frühen Morgen ab.",
    "Der neue Fahrplan hängt an der Wand des Bahnhofs.",
    "Jeder Fahrgast braucht für diese Bahn eine Karte.",
]
PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: de\\n"

"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    State(tmp_path / "state").close()
    return tmp_path


def run(*arguments, typed=None):
    name, *rest = arguments
    result = CliRunner().invoke(
        app,
        ["suggestions", name, "--state", "state", *rest],
        input=typed,
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def add(folder, *rows, owner=""):
    state = State(folder / "state")
    for source, machine, text in rows:
        state.add_suggestion(
            owner,
            source="en",
            target="de",
            source_text=source,
            machine_text=machine,
            suggestion=text,
            model="v1",
        )
    state.close()


def stored(folder):
    state = State(folder / "state")
    suggestions = list(state.suggestions())
    state.close()
    return suggestions


def statuses(folder):
    return [one.status for one in stored(folder)]


GOOD_ROWS = list(zip(SOURCES, MACHINE, GOOD, strict=True))
BAD_ROWS = [
    (GOOD[0], "", SOURCES[0]),
    (SOURCES[1], MACHINE[1], "Völlig anders ist das alles hier."),
]


def entry(source, target, flag=""):
    return f'{flag}msgid "{source}"\nmsgstr "{target}"\n\n'


def test_a_corrected_po_file_gives_what_a_person_changed(folder):
    """Machine translations are fuzzy; what is still fuzzy has not been reviewed."""
    fuzzy = "#, fuzzy\n"
    machine = [entry(*texts, fuzzy) for texts in zip(SOURCES, MACHINE, strict=True)]
    corrected = [
        entry(SOURCES[0], GOOD[0]),
        entry(SOURCES[1], MACHINE[1]),
        entry(SOURCES[2], MACHINE[2], fuzzy),
        entry("A new message.", "Eine neue Nachricht."),
    ]
    (folder / "machine.po").write_text(PO + "".join(machine), encoding="utf-8")
    (folder / "fixed.po").write_text(PO + "".join(corrected), encoding="utf-8")
    arguments = ("import", "fixed.po", "--machine", "machine.po")
    with pytest.raises(DataError, match="--languages en-de"):
        run(*arguments)
    assert stored(folder) == []
    shown = run(*arguments, "--languages", "en-de", "--model", "v7")
    assert "Added 2 suggestions from en to de." in shown
    assert "1 unchanged" in shown
    assert "1 fuzzy" in shown
    assert "dragoman suggestions review --state state" in shown
    first, second = stored(folder)
    assert (first.source_text, first.machine_text, first.suggestion) == GOOD_ROWS[0]
    assert (first.model, first.owner) == ("v7", f"user {getpass.getuser()}")
    assert (second.machine_text, second.suggestion) == ("", "Eine neue Nachricht.")
    # The state has one pair now, and the file again has nothing new.
    shown = run(*arguments)
    assert "Added 0 suggestions" in shown
    assert "2 already stored" in shown
    assert len(stored(folder)) == 2


XLIFF = """<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" datatype="plaintext" source-language="en-US" target-language="de-DE"><body>
<trans-unit id="1"><source>{0}</source><target>{1}</target></trans-unit>
<trans-unit id="2"><source>{2}</source><target>{3}</target></trans-unit>
</body></file></xliff>
"""
TMX = """<?xml version="1.0" encoding="utf-8"?>
<tmx version="1.4"><header creationtool="x" creationtoolversion="1" segtype="sentence"
 o-tmf="x" adminlang="en" srclang="en" datatype="plaintext"/><body>
<tu><tuv xml:lang="en"><seg>{0}</seg></tuv><tuv xml:lang="de"><seg>{1}</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>{2}</seg></tuv><tuv xml:lang="de"><seg>{3}</seg></tuv></tu>
</body></tmx>
"""


@pytest.mark.parametrize(("name", "template"), [("a.xliff", XLIFF), ("a.tmx", TMX)])
def test_corrected_xliff_and_tmx_files(folder, name, template):
    before = (SOURCES[0], MACHINE[0], SOURCES[1], MACHINE[1])
    after = (SOURCES[0], GOOD[0], SOURCES[1], MACHINE[1])
    machine = folder / f"machine-{name}"
    machine.write_text(template.format(*before), encoding="utf-8")
    (folder / name).write_text(template.format(*after), encoding="utf-8")
    run("import", name, "--machine", str(machine))
    (first,) = stored(folder)
    assert (first.source_text, first.machine_text, first.suggestion) == GOOD_ROWS[0]
    # Without the file of the machine, every entry is taken.
    run("import", name)
    assert [one.suggestion for one in stored(folder)] == [GOOD[0], MACHINE[1]]


def test_codes_of_a_file_are_those_of_the_server(folder):
    add(folder, GOOD_ROWS[0])
    (folder / "a.xliff").write_text(
        XLIFF.format(SOURCES[1], GOOD[1], SOURCES[2], GOOD[2]), encoding="utf-8"
    )
    assert "from en to de" in run("import", "a.xliff")
    assert {(one.source, one.target) for one in stored(folder)} == {("en", "de")}


def test_the_list_is_readable_at_80_columns(folder):
    add(folder, *GOOD_ROWS, *BAD_ROWS, (SOURCES[2], "\x1b[2J", "x" * 500))
    shown = run("list")
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert "…" in shown
    assert shown.splitlines()[0].split() == ["id", "source", "machine", "suggestion", "problems"]
    assert "6 new, 0 approved, 0 rejected" in shown
    flat = " ".join(shown.split())
    for problem in ("swapped", "contradiction", "ratio"):
        assert problem in flat
    only = run("list", "--problems")
    assert len(only.splitlines()) < len(shown.splitlines())
    assert run("list", "--status", "approved") == "6 new, 0 approved, 0 rejected\n"


def test_what_has_problems_is_not_approved_by_a_script(folder):
    state = State(folder / "state")
    secret = state.add_key("weblate", ["suggest"])
    key = state.find_key(secret).id
    state.close()
    add(folder, *GOOD_ROWS[:2], owner=key)
    add(folder, GOOD_ROWS[2], *BAD_ROWS)
    dry = run("approve", "--without-problems", "--dry-run")
    assert "Would approve 2 suggestions." in dry
    assert statuses(folder) == ["new"] * 5
    shown = run("approve", "--without-problems")
    assert "Approved 2 suggestions." in shown
    assert f"1 from the key weblate ({key})" in shown
    assert "1 from unknown users" in shown
    # The second text has two different suggestions.
    assert "2 contradiction" in shown
    assert "1 swapped sides" in shown
    assert statuses(folder) == ["approved", "new", "approved", "new", "new"]
    shown = run("reject", "--with-problems")
    assert "Rejected 3 suggestions." in shown
    assert statuses(folder) == ["approved", "rejected", "approved", "rejected", "rejected"]
    assert {one.decided_by for one in stored(folder)} == {getpass.getuser()}
    assert "0 suggestions" in run("approve", "--without-problems")


def test_numbers_and_ranges(folder):
    add(folder, *GOOD_ROWS, *BAD_ROWS)
    assert "Approved 3 suggestions." in run("approve", "1", "4-9")
    assert statuses(folder) == ["approved", "new", "new", "approved", "approved"]
    assert "Rejected 1 suggestion." in run("reject", "4")
    assert statuses(folder) == ["approved", "new", "new", "rejected", "approved"]
    before = stored(folder)
    for arguments, message in [
        (("approve",), "--without-problems, and not both"),
        (("approve", "1", "--without-problems"), "and not both"),
        (("reject",), "--with-problems, and not both"),
        (("approve", "1", "77"), "no suggestion 77.* list --state state --status all"),
        (("approve", "one"), "found 'one'"),
    ]:
        with pytest.raises(DataError, match=message):
            run(*arguments)
    assert stored(folder) == before


def test_a_review(folder):
    add(folder, *GOOD_ROWS, *BAD_ROWS)
    shown = run("review", typed="a\nwhat?\nr\ns\nq\n")
    assert "[-Der Zug-] {+Die Bahn+} zum Hafen fährt" in " ".join(shown.split())
    assert "none found" in shown
    assert "contradiction" in shown
    assert "(not known)" in shown
    assert "1 (1 of 5)" in shown
    assert "Approved 1, rejected 1, 3 still wait." in shown
    assert statuses(folder) == ["approved", "rejected", "new", "new", "new"]
    # The end of the input ends the review.
    assert "Approved 0, rejected 1, 2 still wait." in run("review", typed="r\n")
    assert statuses(folder) == ["approved", "rejected", "rejected", "new", "new"]


def test_only_approved_suggestions_are_exported_and_used(folder):
    english_german = LanguagesRecipe(source="en", target="de")
    state = State(folder / "state")
    with pytest.raises(DataError, match=r"no approved suggestion from en to de in .*; 0 wait"):
        approved_pairs(state, english_german)
    add(folder, *GOOD_ROWS)
    with pytest.raises(DataError, match=r"3 wait .*dragoman suggestions review --state"):
        approved_pairs(state, english_german)
    with pytest.raises(DataError, match="no approved suggestions in 'state'; 3 wait"):
        run("export")
    assert not (folder / "corrections.tsv").exists()
    run("approve", "1", "3")
    assert approved_pairs(state, english_german) == [(SOURCES[0], GOOD[0]), (SOURCES[2], GOOD[2])]
    assert len(approved_pairs(state, LanguagesRecipe(source="eng", target="de-DE"))) == 2
    with pytest.raises(DataError, match=r"from en to fr .*; 0 wait for a decision$"):
        approved_pairs(state, LanguagesRecipe(source="en", target="fr"))
    state.close()
    assert "Wrote 2 suggestions" in run("export")
    assert stat.S_IMODE((folder / "corrections.tsv").stat().st_mode) == 0o600
    assert "Wrote 3 suggestions" in run("export", "--status", "all", "--remove")
    assert stored(folder) == []


def test_adapt_says_how_many_suggestions_wait(folder):
    """In a process of its own, as a user types it."""
    from support.translator_models import write_run

    write_run(folder / "run")
    add(folder, *GOOD_ROWS)
    arguments = ["adapt", "run", "--suggestions", "state", "--general", "none", "-o", "new"]
    shown = subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert shown.returncode == 3, shown.stderr
    assert "3 wait for a decision" in shown.stderr
    assert "dragoman suggestions review --state state" in shown.stderr
    assert not (folder / "new").exists()


def test_an_import_creates_the_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PO + f'msgid "{SOURCES[0]}"\nmsgstr "{GOOD[0]}"\n'
    (tmp_path / "fixed.po").write_text(text, encoding="utf-8")
    assert "Added 1 suggestion" in run("import", "fixed.po", "--languages", "en-de")
    assert GOOD[0][:20] in run("list")
