"""The state of the server: glossaries, documents, suggestions, files and their modes."""

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from dragoman.errors import ArtifactError, DataError
from dragoman.serving.interface import ServiceError
from dragoman.serving.state import State
from dragoman.serving.stores.documents import LIFE_SECONDS, SILENCE_SECONDS
from dragoman.serving.stores.entries import (
    MAX_ENTRIES,
    MAX_TERM_BYTES,
    format_entries,
    parse_entries,
)
from dragoman.serving.stores.glossaries import Dictionary

FIRST_SCHEMA = Path(__file__).parent / "recorded" / "state-schema-1.sql"
"""As Dragoman wrote it before suggestions had a status."""
ENGLISH_GERMAN = Dictionary("en", "de", (("train", "Zug"), ("sleep", "Schwelle")))


class Clock:
    def __init__(self):
        self.seconds = 1_760_000_000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(tmp_path, clock):
    opened = State(tmp_path / "state", now=clock)
    yield opened
    opened.close()


def kind_of(call, *arguments, **options):
    with pytest.raises(ServiceError) as refusal:
        call(*arguments, **options)
    return refusal.value.kind


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_files_can_be_read_by_the_server_only(state):
    job = state.add_document("", "report.docx", "de")
    state.add_glossary("", "terms", [ENGLISH_GERMAN])
    assert mode(state.folder) == 0o700
    files = sorted(path.name for path in state.folder.iterdir() if path.is_file())
    assert files == ["state.sqlite3", "state.sqlite3-shm", "state.sqlite3-wal"]
    assert {mode(state.folder / name) for name in files} == {0o600}
    assert mode(job.folder) == mode(job.folder.parent) == 0o700


def test_a_folder_that_exists_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o755)
    State(tmp_path).close()
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "state.sqlite3") == 0o600


def test_a_newer_schema_is_refused(tmp_path):
    State(tmp_path).close()
    with sqlite3.connect(tmp_path / "state.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(ArtifactError, match=r"schema version 7.*at most 2.*--state"):
        State(tmp_path)


def test_a_state_of_the_first_schema_is_changed_and_keeps_its_suggestions(tmp_path):
    path = tmp_path / "old" / "state.sqlite3"
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.executescript(FIRST_SCHEMA.read_text())
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "INSERT INTO suggestions (owner, source, target, source_text, machine_text,"
            " suggestion, model, created) VALUES ('a', 'en', 'de', 'one', 'EINS', 'eins', 'v1', 5)"
        )
    connection.close()
    for _ in range(2):  # The second time, nothing is left to change.
        old = State(tmp_path / "old", now=lambda: 7.0)
        (suggestion,) = old.suggestions()
        assert (suggestion.owner, suggestion.suggestion, suggestion.model) == ("a", "eins", "v1")
        assert (suggestion.status, suggestion.decided_by, suggestion.decided) == ("new", "", None)
        old.close()
    new = State(tmp_path / "new")
    new.close()
    assert schema_of(path) == schema_of(tmp_path / "new" / "state.sqlite3")


def schema_of(path):
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    columns = {
        name: list(connection.execute(f"PRAGMA table_xinfo({name})")) for name in sorted(tables)
    }
    version = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return columns, version


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "state.sqlite3").write_bytes(b"not a database" * 1000)
    with pytest.raises(ArtifactError, match="cannot be opened as a SQLite database"):
        State(tmp_path)


def test_a_missing_state_is_not_created_by_mistake(tmp_path):
    with pytest.raises(DataError, match="there is no server state"):
        State(tmp_path / "typo", must_exist=True)
    assert not (tmp_path / "typo").exists()


def test_every_thread_has_its_own_connection(state):
    glossary = state.add_glossary("", "terms", [ENGLISH_GERMAN])
    names = []

    def work(number):
        for turn in range(5):
            state.change_glossary("", glossary.id, f"{number} {turn}")
            names.append(state.glossary("", glossary.id).name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 20
    assert state.glossary("", glossary.id).revision == 21


def test_an_owner_sees_only_its_own_glossaries(state):
    info = state.add_glossary("alice", "terms", [ENGLISH_GERMAN])
    assert state.glossaries("bob") == []
    other = Dictionary("en", "de", (("a", "b"),))
    for call, arguments in [
        (state.glossary, ()),
        (state.glossary_entries, ("en", "de")),
        (state.change_glossary, ("mine",)),
        (state.change_glossary, ("", [other])),
        (state.replace_dictionary, (other,)),
        (state.delete_dictionary, ("en", "de")),
        (state.delete_glossary, ()),
    ]:
        assert kind_of(call, "bob", info.id, *arguments) == "not_found"
    assert state.glossary("alice", info.id) == info
    assert state.glossary_entries("alice", info.id, "en", "de") == list(ENGLISH_GERMAN.entries)


@pytest.mark.parametrize("glossary_id", ["", "x", "\ud800", "../x", "'; DROP TABLE keys"])
def test_any_text_may_be_asked_for_as_a_glossary(state, glossary_id):
    assert kind_of(state.glossary, "", glossary_id) == "not_found"
    assert kind_of(state.delete_glossary, "", glossary_id) == "not_found"


def test_a_refused_change_changes_nothing(state):
    info = state.add_glossary("", "terms", [ENGLISH_GERMAN])
    bad = Dictionary("en", "de", (("good", "gut"), ("tab\t", "x")))
    change = state.change_glossary
    assert kind_of(change, "", info.id, "", [bad]) == "bad_request"
    many = Dictionary("en", "de", tuple((str(n), "x") for n in range(MAX_ENTRIES)))
    assert kind_of(change, "", info.id, "", [many]) == "bad_request"
    # A refusal of the second dictionary takes back the name and the first one.
    good = Dictionary("en", "fr", (("good", "bon"),))
    assert kind_of(change, "", info.id, "new", [good, many]) == "bad_request"
    assert kind_of(change, "", info.id, "x" * 100_000, [good]) == "bad_request"
    assert state.glossary("", info.id) == info
    assert state.glossary_entries("", info.id, "en", "de") == list(ENGLISH_GERMAN.entries)


def test_names_of_glossaries_come_back_unchanged(state):
    name = "  weblate:проект:EN:DE:0a1b \t ✓ "
    assert state.add_glossary("", name, [ENGLISH_GERMAN]).name == name
    assert state.glossaries("")[0].name == name
    assert kind_of(state.add_glossary, "", " ", [ENGLISH_GERMAN]) == "bad_request"
    assert kind_of(state.add_glossary, "", "\ud800", [ENGLISH_GERMAN]) == "bad_request"
    assert kind_of(state.add_glossary, "", "x" * 1025, [ENGLISH_GERMAN]) == "bad_request"


@pytest.mark.parametrize(
    ("text", "format", "entries"),
    [
        ("a\tb\nc\td", "tsv", (("a", "b"), ("c", "d"))),
        ("\ufeffa\tb\r\n\r\n c d \t e \r\n", "tsv", (("a", "b"), ("c d", "e"))),
        ('a,"b, c"\n"say ""x""",d\n', "csv", (("a", "b, c"), ('say "x"', "d"))),
        ("a,b,en,de\nc,d\n", "csv", (("a", "b"), ("c", "d"))),
        ('"quoted\tb', "tsv", (('"quoted', "b"),)),
    ],
)
def test_entries_are_read(text, format, entries):
    assert parse_entries(text, format) == entries
    assert parse_entries(format_entries(entries)) == entries


@pytest.mark.parametrize(
    ("text", "format", "message"),
    [
        ("", "tsv", "no entries"),
        ("canary", "tsv", "Line 1 .* has 1 column"),
        ("a\tb\ncanary\tx\ty", "tsv", "Line 2 .* has 3 column"),
        ("canary\tb\ncanary\tc", "tsv", "Line 2 .* repeats"),
        ("canary\t", "tsv", "Line 1 .* empty column"),
        ("canary\u2028\tb", "tsv", "line separator"),
        ("canary\ud800\tb", "tsv", "control character"),
        ('a,"canary\tb"', "csv", "control character"),
        ('a,"canary\nb"', "csv", "control character"),
        ('a,"canary', "csv", "not valid CSV"),
        ("canary,b,c", "csv", "has 3 column"),
        ("é" * (MAX_TERM_BYTES // 2 + 1) + "\tb", "tsv", "1,024 bytes"),
        ("\n".join(f"{n}\tx" for n in range(MAX_ENTRIES + 1)), "tsv", "20,000 entries"),
    ],
)
def test_bad_entries_are_refused_without_repeating_them(text, format, message):
    with pytest.raises(ServiceError, match=message) as refusal:
        parse_entries(text, format)
    assert refusal.value.kind == "bad_request"
    assert "canary" not in refusal.value.message


def test_a_document_is_given_only_for_its_id_and_secret(state):
    job = state.add_document("alice", "report.DOCX", "de", "en")
    assert len(job.id) == 32
    assert len(job.secret) == 64
    seen = state.document(job.id, job.secret, "alice")
    assert (seen.secret, seen.status, seen.target, seen.source) == ("", "queued", "de", "en")
    assert state.document(job.id, job.secret) == seen
    for job_id, secret, owner in [
        (job.id, job.secret, "bob"),
        (job.id, job.secret, ""),
        (job.id, job.secret[:-1], "alice"),
        (job.id, "", None),
        (job.id, "\ud800", None),
        ("0" * 32, job.secret, None),
        ("../" + job.id, job.secret, None),
        ("\ud800", job.secret, None),
    ]:
        assert kind_of(state.document, job_id, secret, owner) == "not_found"


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.PO", ".po"),
        ("a.tar.gz", ".gz"),
        ("a", ""),
        ("../../etc/x.po/..", ""),
        ("a./../../x", ""),
        ("a.p\0o", ""),
        ("\ud800.po", ".po"),
        ("x" * 5000 + ".po", ".po"),
    ],
)
def test_the_file_name_of_a_client_is_no_path(state, name, extension):
    job = state.add_document("", name, "de")
    assert job.input == job.folder / f"input{extension}"
    assert job.folder.parent == state.folder / "documents"
    assert len(job.name) <= 255


def test_the_files_of_a_document(state):
    job = state.add_document("", "a.txt", "de")
    job.input.write_text("source")
    state.update_document(job.id, status="translating", units=10)
    state.update_document(job.id, units_done=4)
    seen = state.document(job.id, job.secret)
    assert (seen.status, seen.units_done, seen.units) == ("translating", 4, 10)
    job.output.write_text("target")
    job.output.chmod(0o644)
    state.update_document(job.id, status="done", units_done=10, characters=6)
    assert not job.input.exists()
    assert mode(job.output) == 0o600
    assert state.document(job.id, job.secret).characters == 6
    state.delete_document(job.id)
    assert not job.folder.exists()
    state.update_document(job.id, units_done=1)  # A late report is ignored.
    assert kind_of(state.document, job.id, job.secret) == "not_found"


def test_a_failed_document_leaves_no_file(state):
    job = state.add_document("", "a.txt", "de")
    job.input.write_text("source")
    job.output.write_text("half")
    state.update_document(job.id, status="error", error="The file cannot be read.")
    assert state.document(job.id, job.secret).error == "The file cannot be read."
    assert list(job.folder.iterdir()) == []


def test_documents_are_deleted_30_minutes_after_their_last_change(state, clock):
    old, new = (state.add_document("", "a.txt", "de") for _ in range(2))
    for job in (old, new):
        job.output.write_text("target")
        state.update_document(job.id, status="done")
    clock.seconds += LIFE_SECONDS - 1
    state.update_document(new.id, characters=3)
    state.expire_documents()
    assert old.output.exists()
    clock.seconds += 2
    assert kind_of(state.document, old.id, old.secret) == "not_found"  # Before it is deleted.
    state.expire_documents()
    assert not old.folder.exists()
    assert new.output.exists()


def test_the_documents_of_a_process_that_ended_are_errors(state, clock):
    lost, running = (state.add_document("", "a.txt", "de") for _ in range(2))
    lost.input.write_text("source")
    orphan = state.folder / "documents" / "0123" / "x"
    orphan.mkdir(parents=True)
    clock.seconds += SILENCE_SECONDS - 1
    state.expire_documents(active=[running.id])
    assert not orphan.parent.exists()
    assert state.document(lost.id, lost.secret).status == "queued"
    clock.seconds += 2
    state.expire_documents(active=[running.id])
    assert state.document(running.id, running.secret).status == "queued"
    seen = state.document(lost.id, lost.secret)
    assert (seen.status, seen.error) == (
        "error",
        "The server was restarted. Send the document again.",
    )
    assert not lost.input.exists()


def test_suggestions_are_kept_and_removed(state):
    fields = {
        "source": "en",
        "target": "de",
        "source_text": "one\ntwo",
        "machine_text": "",
        "suggestion": "eins\tzwei",
        "model": "v1",
    }
    first = state.add_suggestion("alice", **fields)
    second = state.add_suggestion("", **fields)
    seen = list(state.suggestions())
    assert [entry.id for entry in seen] == [first, second]
    assert seen[0].owner == "alice"
    assert {name: getattr(seen[0], name) for name in fields} == fields
    state.remove_suggestions([first])
    assert [entry.id for entry in state.suggestions()] == [second]
    state.decide_suggestions([second], "rejected", "alice")
    (decided,) = state.suggestions()
    assert (decided.status, decided.decided_by) == ("rejected", "alice")
    assert decided.decided.timestamp() == state.now()
    with pytest.raises(DataError, match=f"no suggestion {first} .*nothing was changed"):
        state.decide_suggestions([second, first], "approved", "alice")
    (kept,) = state.suggestions()
    assert kept == decided
    for name in ("source_text", "suggestion"):
        for text in ("", " ", "\ud800", "x" * 20_001):
            assert kind_of(state.add_suggestion, "", **fields | {name: text}) == "bad_request"
