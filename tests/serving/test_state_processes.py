"""Several processes share the state, and a killed process loses nothing that it acknowledged."""

import os
import random
import sqlite3
import subprocess
import sys

import pytest

from dragoman.serving.state import State
from dragoman.serving.stores.glossaries import Dictionary


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "support.state_writer", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_four_processes_never_exceed_a_quota_together(tmp_path):
    """1,000 characters in requests of 7: 142 are accepted, not one more and not one less."""
    state = State(tmp_path)
    key_id = state.find_key(state.add_key("a", characters_per_month=1000)).id
    processes = [start("charge", tmp_path, key_id, 7) for _ in range(4)]
    (tmp_path / "go").touch()
    accepted = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert sum(accepted) == 1000 // 7
    assert state.usage(key_id).characters == 142 * 7
    state.close()


@pytest.mark.slow
def test_four_processes_create_one_state(tmp_path):
    processes = [start("charge", tmp_path, "none", 1) for _ in range(4)]
    (tmp_path / "go").touch()
    assert [process.communicate(timeout=60)[0] for process in processes] == ["0\n"] * 4
    assert [process.returncode for process in processes] == [0, 0, 0, 0]


@pytest.mark.slow
def test_what_a_killed_process_acknowledged_is_there(tmp_path):
    rng = random.Random(5)
    for _ in range(4):
        with start("write", tmp_path) as process:
            lines = [process.stdout.readline() for _ in range(rng.randrange(1, 40))]
            process.kill()
            # Lines that were written before the kill count as well; the last may be incomplete.
            lines += [line for line in process.stdout if line.endswith("\n")]
        state = State(tmp_path)
        suggestions = {entry.id: entry.suggestion for entry in state.suggestions()}
        for line in lines:
            kind, reference, number = line.split()
            if kind in ("glossary", "renamed"):
                info = state.glossary("", reference)
                assert info.name in (number, f"new {number}")
                assert kind == "glossary" or info.name == f"new {number}"
                assert state.glossary_entries("", reference, "en", "de") == [("a", number)]
            elif kind == "key":
                assert state.find_key(reference).name == number
            elif kind == "document":
                job = state.document(*reference.split("/"))
                assert job.folder.is_dir()
            else:
                assert suggestions[int(reference)] == number
        state.close()
        connection = sqlite3.connect(tmp_path / "state.sqlite3")
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()


def test_a_change_is_visible_to_others_at_once(tmp_path):
    first, second = State(tmp_path), State(tmp_path)
    for number in range(5):
        dictionary = Dictionary("en", "de", (("a", str(number)),))
        info = first.add_glossary("", f"weblate:{number}", [dictionary])
        assert second.glossaries("")[-1] == info
        second.replace_dictionary("", info.id, Dictionary("en", "de", (("b", "c"),)))
        assert first.glossary_entries("", info.id, "en", "de") == [("b", "c")]
    first.close()
    second.close()


def test_a_forked_process_uses_its_own_connection(tmp_path):
    state = State(tmp_path)
    key_id = state.find_key(state.add_key("a")).id
    parent = state._connection()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            is_own = state._connection() is not parent
            status = 0 if is_own and state.charge(key_id, 3) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert state.charge(key_id, 4)
    assert state.usage(key_id).characters == 7
    state.close()
