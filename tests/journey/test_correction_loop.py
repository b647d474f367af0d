"""The whole loop with a live server, over HTTP and the command line.

A server translates, people send 200 corrections and others send poison, the operator approves, the
model is adapted and accepted, the server follows, and the corrections hold on sentences that nobody
corrected. A rollback restores the old answers exactly.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest

from dragoman.adaptation.versions import VersionedModel
from dragoman.serving.state import State
from support import trains
from support.live_server import STOP_SECONDS, fetch
from support.ports import free_port
from support.word_language import SETTINGS, write_pairs

# Daft leaves pipes of its workers open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CORRECTIONS, UNSEEN = 200, 60
WAIT_SECONDS = 240
"""A loaded machine is slow; what is waited for usually takes seconds."""
SPAM = "heute kauft jedes kind die besten und billigsten pillen im großen garten"
FRENCH = "le vieux train attend près de la rivière et du petit pont"


def dragoman(folder, *arguments):
    """Run a command as a user types it, and return what it prints."""
    shown = subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
    )
    assert shown.returncode == 0, shown.stderr + shown.stdout
    return shown.stdout


class Server:
    """`dragoman serve`, in a process of its own."""

    def __init__(self, folder, key):
        self.port = free_port()
        self.key = key
        self.log = folder / "server.log"
        options = ["--state", "state", "--require-keys", "--port", str(self.port), "--threads", "1"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dragoman", "serve", "adapted", *options],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_until(self, is_reached):
        end = time.monotonic() + WAIT_SECONDS
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if is_reached():
                    return
            except OSError:
                pass  # It does not listen yet.
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.2)

    def post(self, path, values, key=""):
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {key or self.key}",
        }
        body = json.dumps(values).encode()
        return fetch("127.0.0.1", self.port, "POST", path, body, headers)

    def is_ready(self):
        return fetch("127.0.0.1", self.port, "GET", "/readyz").status == 200

    def version(self):
        answer = fetch("127.0.0.1", self.port, "GET", "/v1/models")
        return answer.json()["models"][0]["version"]

    def translate(self, sources):
        answer = self.post("/v1/translate", {"texts": sources, "source": "en", "target": "de"})
        assert answer.status == 200, answer
        return answer.json()["translations"]

    def correct(self, key, source, machine, text, model):
        """Send a correction with the API of Dragoman."""
        values = {
            "source": "en",
            "target": "de",
            "source_text": source,
            "machine_text": machine,
            "suggestion": text,
            "model": model,
        }
        assert self.post("/v1/suggestions", values, key).status == 201

    def suggest(self, key, source, text):
        """Send a correction with the API of LibreTranslate."""
        values = {"q": source, "s": text, "source": "en", "target": "de", "api_key": key}
        assert self.post("/suggest", values, key).json() == {"success": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with one version, and trusted and general pairs of the operator."""
    folder = tmp_path_factory.mktemp("loop")
    VersionedModel.create(folder / "adapted", trains.parent(folder / "parent"))
    write_pairs(folder / "trusted.tsv", trains.sentences(150, 3, right=True))
    write_pairs(folder / "general.tsv", trains.sentences(400, 4, right=True, terms=False))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_corrections_reach_the_model_and_a_rollback_removes_them(folder):
    anna = dragoman(folder, "keys", "add", "anna", "--state", "state").strip()
    ben = dragoman(folder, "keys", "add", "ben", "--state", "state").strip()
    pairs = trains.sentences(CORRECTIONS + UNSEEN, 5, right=True)
    corrected, unseen = pairs[:CORRECTIONS], pairs[CORRECTIONS:]
    unseen_sources = [source for source, _ in unseen]
    server = Server(folder, anna)
    try:
        server.wait_until(server.is_ready)
        first_version = server.version()
        before = server.translate(unseen_sources)
        assert share_right(before, unseen) <= 0.1
        send_corrections(server, anna, ben, corrected)
        poison = send_poison(server, ben, corrected)
        approve(folder, corrected, poison)

        report = adapt(folder)
        assert "accepted" in report
        server.wait_until(lambda: server.version() != first_version)
        after = server.translate(unseen_sources)
        assert share_right(after, unseen) >= 0.9
        record = VersionedModel.open(folder / "adapted").current
        assert (record.number, record.accepted_by) == (2, "gate")
        (data,) = record.data
        assert re.fullmatch(r"suggestions-[0-9a-f]{12}\.jsonl", data.name)
        assert (data.pairs, data.sha256[:12]) == (CORRECTIONS, data.name[12:24])
        assert "nothing was done" in adapt(folder)

        dragoman(folder, "models", "rollback", "adapted")
        server.wait_until(lambda: server.version() == first_version)
        assert server.translate(unseen_sources) == before
        server.process.terminate()
        assert server.process.wait(STOP_SECONDS) == 0
    finally:
        server.process.kill()
        server.process.wait()
    # No text of a user is in a log, or stays in the folder of the adaptation.
    assert not any(source in server.log.read_text() for source, _ in pairs)
    assert not list((folder / "adapted").rglob("suggestions*"))
    assert (folder / "adapted" / "work").stat().st_mode & 0o077 == 0


def share_right(translations, pairs):
    right = (one["text"] == target for one, (_, target) in zip(translations, pairs, strict=True))
    return sum(right) / len(pairs)


def send_corrections(server, anna, ben, corrected):
    """Half of them with each API; the translations they correct come from the server."""
    translations = server.translate([source for source, _ in corrected])
    for number, ((source, right), machine) in enumerate(zip(corrected, translations, strict=True)):
        assert machine["text"] != right
        if number % 2:
            server.correct(anna, source, machine["text"], right, machine["model"])
        else:
            server.suggest(ben, source, right)


def send_poison(server, key, corrected):
    """Return the expected problem of each text and suggestion."""
    others = trains.sentences(40, 6, right=False)
    sources = [source for source, _ in others]
    poison = {(right, source): "swapped sides" for source, right in corrected[:3]}
    poison |= {(sources[n], f"{others[n][1]} http://spam.example/{n}"): "placeholders differ"
               for n in range(3)}  # fmt: skip
    poison |= {(sources[n], "bahn " * 10): "repetition on one side" for n in range(3, 6)}
    poison |= {(sources[n], FRENCH): "wrong target language" for n in range(6, 9)}
    poison |= {(sources[n], sources[n]): "target is a copy" for n in range(9, 12)}
    poison |= {(sources[n], f"{SPAM} {n}"): "same suggestion for many texts"
               for n in range(12, 27)}  # fmt: skip
    poison[corrected[0][0], others[0][1]] = "contradiction"
    for source, text in poison:
        server.suggest(key, source, text)
    for source, right in corrected[:3]:
        server.suggest(key, source, right)  # Duplicates.
    server.correct(key, *others[30], others[30][1], "")  # No change.
    return poison


def approve(folder, corrected, poison):
    """Look at the problems, approve what has none, and decide about the rest."""
    listed = dragoman(folder, "suggestions", "list", "--state", "state", "--problems")
    assert max(map(len, listed.splitlines())) <= 80
    words = " ".join(listed.split())
    for problem in {*poison.values(), "duplicate", "no change"}:
        assert set(problem.split()) <= set(words.replace(",", " ").split()), problem
    shown = dragoman(folder, "suggestions", "approve", "--state", "state", "--without-problems")
    # The first text has a second suggestion, which contradicts the right one.
    assert f"Approved {CORRECTIONS - 1} suggestions." in shown
    assert re.search(r"100 from the key anna \([0-9a-f]{12}\)", shown)
    for problem in {*poison.values(), "duplicate", "no change"}:
        assert problem in shown
    state = State(folder / "state")
    contradicted = next(one for one in state.suggestions() if one.source_text == corrected[0][0])
    assert contradicted.suggestion == corrected[0][1]
    dragoman(folder, "suggestions", "approve", "--state", "state", str(contradicted.id))
    dragoman(folder, "suggestions", "reject", "--state", "state", "--with-problems")
    decided = list(state.suggestions())
    state.close()
    approved = [one for one in decided if one.status == "approved"]
    assert {(one.source_text, one.suggestion) for one in approved} == set(corrected)
    assert len(approved) == CORRECTIONS
    assert {one.status for one in decided} == {"approved", "rejected"}
    # Every suggestion has the version of the model; LibreTranslate's API has no machine text.
    assert len({one.model for one in decided}) == 1
    assert {bool(one.machine_text) for one in approved} == {True, False}


def adapt(folder):
    settings = [setting for setting in SETTINGS if not setting.startswith("corpus.filters")]
    options = ["--suggestions", "state", "--test", "trusted.tsv", "--general", "general.tsv"]
    return dragoman(folder, "adapt", "adapted", *options, "--minutes", "0", *settings)
