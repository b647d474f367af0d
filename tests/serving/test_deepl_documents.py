"""Documents: their jobs, and the DeepL API for them."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sqlite3
import stat
import time

import httpx
import pytest

from dragoman.serving.access import Access
from dragoman.serving.context import Context
from dragoman.serving.document_jobs import DocumentJobs, Slots
from dragoman.serving.interface import Caller, ServerSettings, ServiceError
from dragoman.serving.metrics import Metrics
from dragoman.serving.multipart import Upload
from dragoman.serving.state import State
from dragoman.serving.stores.documents import LIFE_SECONDS, SILENCE_SECONDS
from support.deepl_server import live_server
from support.live_server import live_server as live_process
from support.serving import write_stub

ONE, TWO = Caller("one"), Caller("two")
PO = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: a.c:1
msgid "Save %s"
msgstr ""
"""
LINES = "".join(f"This is line {number}.\n\n" for number in range(900))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    slow = {"source": "de", "target": "en", "seconds_per_token": 0.0003, "slots": 1}
    runs = (write_stub(folder / "en-de", function="upper"), write_stub(folder / "de-en", **slow))
    with live_server(folder, *runs) as live:
        yield live


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that requires keys."""
    folder = tmp_path_factory.mktemp("guarded")
    with live_server(folder, write_stub(folder / "run"), requires_keys=True) as live:
        yield live


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url, headers={"Authorization": "DeepL-Auth-Key k"}) as http:
        yield http


def upload(client, name="note.txt", data=b"Hello world.\n", **parameters):
    fields = {"target_lang": "DE", "source_lang": "EN", **parameters}
    return client.post("/v2/document", data=fields, files={"file": (name, data)})


def finished(client, answer):
    """Wait for the end of a document, as the clients do."""
    end = time.monotonic() + 60
    while True:
        response = client.post(
            f"/v2/document/{answer['document_id']}", json={"document_key": answer["document_key"]}
        )
        assert response.status_code == 200, response.text
        status = response.json()
        assert status["document_id"] == answer["document_id"]
        # With any other word, the official clients fail or wait for ever.
        assert status["status"] in ("queued", "translating", "done", "error")
        if status["status"] in ("done", "error"):
            return status
        assert time.monotonic() < end


def message(response, status):
    assert response.status_code == status, response.text
    (key,) = response.json()
    assert key == "message"
    return response.json()["message"]


# The API.


def test_a_document_from_upload_to_download(client):
    answer = upload(client).json()
    assert set(answer) == {"document_id", "document_key"}
    status = finished(client, answer)
    assert status == {
        "document_id": answer["document_id"],
        "status": "done",
        "billed_characters": len("Hello world."),
    }
    path = f"/v2/document/{answer['document_id']}/result"
    # deepl-python sends the key as JSON, deepl-node as a form; both may ask again.
    for encoding in ("json", "data"):
        response = client.post(path, **{encoding: {"document_key": answer["document_key"]}})
        assert response.status_code == 200
        assert response.content == b"HELLO WORLD.\n"
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"].startswith("attachment")
    # Not `downloaded`, which the official clients do not understand.
    assert finished(client, answer)["status"] == "done"


def test_a_small_document_is_done_at_the_first_look(client):
    """The clients look every 5 seconds."""
    answer = upload(client).json()
    response = client.post(
        f"/v2/document/{answer['document_id']}", data={"document_key": answer["document_key"]}
    )
    assert response.json()["status"] == "done"


@pytest.mark.parametrize("order", ["file first", "file last"])
def test_the_name_of_the_file_says_the_format(client, order):
    """deepl-python sends the file last and without a type, deepl-node sends it first."""
    fields = [("target_lang", (None, "de")), ("source_lang", (None, "en"))]
    file = ("file", ("messages.po", PO.encode(), "image/png"))
    parts = [file, *fields] if order == "file first" else [*fields, file]
    answer = client.post("/v2/document", files=parts).json()
    assert finished(client, answer)["status"] == "done"
    response = client.post(
        f"/v2/document/{answer['document_id']}/result",
        json={"document_key": answer["document_key"]},
    )
    assert 'msgstr "SAVE %s"' in response.text


@pytest.mark.parametrize(
    "parameters",
    [
        {"formality": "default"},
        {"formality": "prefer_more"},
        {"output_format": "txt"},
        {"output_format": ".TXT"},
        {"filename": "other.txt"},
        {"filename": "../../etc/other.txt"},
        {"filename": "C:\\Users\\me\\other.txt"},
        {"source_lang": ""},
        {"enable_document_minification": "1"},
        {"style_id": "x", "translation_memory_id": "x", "translation_memory_threshold": "75"},
    ],
)
def test_parameters_of_an_upload(client, parameters):
    text = b"This is an English sentence about the weather.\n"
    answer = upload(client, "a.txt", text, **parameters).json()
    assert finished(client, answer)["status"] == "done"


def test_an_upload_with_a_file_name_parameter_only(client):
    answer = upload(client, "blob", PO.encode(), filename="messages.po").json()
    assert finished(client, answer)["status"] == "done"


def test_glossaries_are_used(client):
    body = {
        "name": "terms",
        "source_lang": "EN",
        "target_lang": "DE",
        "entries": "world\tWelt",
        "entries_format": "tsv",
    }
    glossary_id = client.post("/v2/glossaries", json=body).json()["glossary_id"]
    for parameters in ({"glossary_id": glossary_id}, {"glossary_ids": f"{glossary_id}"}):
        answer = upload(client, **parameters).json()
        assert finished(client, answer)["status"] == "done"
        key = {"document_key": answer["document_key"]}
        path = f"/v2/document/{answer['document_id']}/result"
        assert client.post(path, json=key).content == b"HELLO WELT.\n"


@pytest.mark.parametrize(
    ("name", "parameters", "part"),
    [
        ("a.txt", {"target_lang": ""}, "target_lang is missing"),
        ("a.txt", {"target_lang": "XX"}, "XX"),
        ("a.txt", {"formality": "more"}, "not supported"),
        ("a.txt", {"output_format": "pdf"}, "cannot be converted"),
        ("a.exe", {}, ".docx"),
        ("a", {}, ".docx"),
        ("a.txt", {"glossary_id": "x", "source_lang": ""}, "source_lang"),
    ],
)
def test_an_upload_that_cannot_be_translated_is_refused_at_once(
    server, client, name, parameters, part
):
    assert part in message(upload(client, name, **parameters), 400)
    # Nothing of it is kept.
    assert not list((server.context.state.folder / "uploads").iterdir())


def test_an_upload_without_a_file(client):
    fields = {"target_lang": (None, "DE")}
    assert "file is missing" in message(client.post("/v2/document", files=fields), 400)
    assert "file is missing" in message(client.post("/v2/document", data={"x": "y"}), 400)


def test_a_file_that_is_too_large(client):
    assert message(upload(client, data=bytes(21 << 20)), 413)


def test_an_invalid_document_ends_with_an_error_that_names_the_line(server, client):
    answer = upload(client, "messages.po", b'msgid "a"\nmsgstr "b\n').json()
    status = finished(client, answer)
    assert status["status"] == "error"
    assert "document.po" in status["error_message"]
    assert "line 2" in status["error_message"]
    assert str(server.context.state.folder) not in status["error_message"]
    path = f"/v2/document/{answer['document_id']}/result"
    response = client.post(path, json={"document_key": answer["document_key"]})
    assert "line 2" in message(response, 400)


def test_a_document_that_names_another_language_is_an_error_of_the_client(client):
    data = PO.replace("Content-Type", "Language: fr\\nContent-Type").encode()
    status = finished(client, upload(client, "secret.po", data).json())
    assert status["status"] == "error"
    assert "names French (fr) as its target language" in status["error_message"]
    assert "secret" not in status["error_message"]


def test_a_wrong_id_or_key_is_not_found(client):
    answer = upload(client).json()
    right_id, right_key = answer["document_id"], answer["document_key"]
    for document_id, key in (
        (right_id, "0" * len(right_key)),
        (right_id, ""),
        (right_id[::-1], right_key),
        ("..", right_key),
        ("%2e%2e%2fstate.sqlite3", right_key),
    ):
        for suffix in ("", "/result"):
            response = client.post(
                f"/v2/document/{document_id}{suffix}", json={"document_key": key}
            )
            assert response.status_code == 404


@pytest.mark.slow
def test_a_document_in_work(tmp_path):
    """The result is not ready; deepl-python asks again after 503."""
    run = write_stub(tmp_path / "run", seconds_per_token=0.001, slots=1)
    with (
        live_server(tmp_path, run) as live,
        httpx.Client(base_url=live.url) as http,
    ):
        answer = upload(http, data=LINES.encode()).json()
        key = {"document_key": answer["document_key"]}
        path = f"/v2/document/{answer['document_id']}"
        assert message(http.post(f"{path}/result", json=key), 503)
        statuses = [http.post(path, json=key).json() for _ in range(2)]
        assert {status["status"] for status in statuses} == {"translating"}
        assert statuses[1]["seconds_remaining"] >= 1
        # The server ends now, although the document is not finished.
    with live_server(tmp_path, run) as live, httpx.Client(base_url=live.url) as http:
        status = finished(http, answer)
        assert status["status"] == "error"
        assert "Send the document again" in status["error_message"]


def test_nobody_sees_the_documents_of_another_key(guarded):
    with httpx.Client() as http:
        keys = [guarded.context.state.add_key(name) for name in ("one", "two")]
        one, two = ({"Authorization": f"DeepL-Auth-Key {key}"} for key in keys)
        files = {"file": ("a.txt", b"Hello.\n")}
        fields = {"target_lang": "DE", "source_lang": "EN"}
        url = f"{guarded.url}/v2/document"
        answer = http.post(url, data=fields, files=files, headers=one).json()
        key = {"document_key": answer["document_key"]}
        url += f"/{answer['document_id']}"
        assert http.post(url, json=key, headers=one).json()["status"] == "done"
        for suffix in ("", "/result"):
            assert message(http.post(url + suffix, json=key, headers=two), 404)
            assert message(http.post(url + suffix, json=key), 403)
        assert http.post(f"{url}/result", json=key, headers=one).content == b"Hello.\n"
        usage = http.get(f"{guarded.url}/v2/usage", headers=one).json()
        assert usage["character_count"] == len("Hello.")


def test_a_document_beyond_the_quota_ends_with_an_error(guarded):
    key = guarded.context.state.add_key("one", characters_per_month=5)
    headers = {"Authorization": f"DeepL-Auth-Key {key}"}
    with httpx.Client(base_url=guarded.url, headers=headers) as http:
        answer = upload(http).json()
        status = finished(http, answer)
        assert status["status"] == "error"
        assert "quota" in status["error_message"]
        assert http.get("/v2/usage").json()["character_count"] == 0
        folder = guarded.context.state.folder / "documents" / answer["document_id"]
        assert not list(folder.iterdir())
        # Without any quota, not even the work begins.
        body = {"text": ["Hello"], "source_lang": "EN", "target_lang": "DE"}
        assert http.post("/v2/translate", json=body).status_code == 200
        assert "used up" in message(upload(http), 456)


@pytest.mark.slow
def test_every_process_answers_for_every_document(tmp_path):
    run = write_stub(tmp_path / "run", function="upper")
    with live_process(tmp_path, run, processes=2) as live:
        for number in range(10):
            text = f"This is text {number}.\n"
            # Each request opens a connection; any of the processes may accept it.
            answer = httpx.post(
                f"{live.url}/v2/document",
                data={"target_lang": "DE", "source_lang": "EN"},
                files={"file": ("a.txt", text.encode())},
            ).json()
            key = {"document_key": answer["document_key"]}
            url = f"{live.url}/v2/document/{answer['document_id']}"
            for _ in range(4):
                assert httpx.post(url, json=key).json()["status"] == "done"
                assert httpx.post(f"{url}/result", json=key).text == text.upper()


# The jobs.


class Bench:
    """Jobs with the engines of the server and their own state."""

    def __init__(self, folder, service):
        settings = ServerSettings(runs=(), state=folder)
        self.seconds_later = 0.0
        self.state = State(folder, now=lambda: time.time() + self.seconds_later)
        self.context = Context(
            settings, service, self.state, Access(settings, self.state), Metrics()
        )
        self.jobs = self.context.documents

    def write(self, data=b"Hello world.\n", name="note.txt"):
        path = self.jobs.uploads / f"upload-{os.urandom(4).hex()}"
        path.write_bytes(data)
        return Upload(name, path, len(data))

    async def start(self, caller=ONE, data=b"Hello world.\n", name="note.txt"):
        return await self.jobs.start(self.write(data, name), caller, target="de", source="en")

    async def start_long(self, caller=ONE):
        """Start a job that takes more than a second."""
        upload = self.write(LINES.encode())
        return await self.jobs.start(upload, caller, target="en", source="de")


@pytest.fixture
def run_jobs(server, tmp_path):
    """Run a test with jobs in the event loop of the server."""

    async def main(test):
        bench = Bench(tmp_path / "state", server.context.service)
        async with bench.jobs:
            await test(bench)
        return bench

    return lambda test: server.run(main(test))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_private_and_do_not_stay(run_jobs):
    async def test(bench):
        job = await bench.start()
        assert len(job.id) == 32
        assert len(job.secret) >= 32
        assert mode(job.folder) == mode(bench.jobs.uploads) == 0o700
        assert mode(job.input) == 0o600
        assert not list(bench.jobs.uploads.iterdir())
        done = await bench.jobs.wait(job.id, job.secret)
        assert (done.status, done.characters) == ("done", 12)
        assert [path.name for path in done.folder.iterdir()] == ["output.txt"]
        assert mode(done.output) == 0o600
        assert done.output.read_bytes() == b"HELLO WORLD.\n"

    old = os.umask(0)
    try:
        run_jobs(test)
    finally:
        os.umask(old)


def test_documents_expire_30_minutes_after_their_end(run_jobs):
    async def test(bench):
        job = await bench.start()
        await bench.jobs.wait(job.id, job.secret)
        bench.seconds_later = LIFE_SECONDS - 60
        bench.jobs._expire()
        assert bench.jobs.find(job.id, job.secret).output.exists()
        bench.seconds_later = LIFE_SECONDS + 60
        with pytest.raises(ServiceError) as error:
            bench.jobs.find(job.id, job.secret)
        assert error.value.kind == "not_found"
        # When the next server starts, also its files are gone.
        async with DocumentJobs(bench.context):
            assert not job.folder.exists()

    run_jobs(test)


def test_documents_expire_also_after_a_round_that_failed(run_jobs, monkeypatch):
    monkeypatch.setattr("dragoman.serving.document_jobs._EXPIRE_SECONDS", 0.05)

    async def test(bench):
        job = await bench.start()
        await bench.jobs.wait(job.id, job.secret)
        expire = bench.state.expire_documents
        failures = []

        def fail_once(active):
            if failures:
                expire(active)
            else:
                failures.append(active)
                raise sqlite3.OperationalError("database or disk is full")

        bench.state.expire_documents = fail_once
        bench.seconds_later = LIFE_SECONDS + 60
        end = time.monotonic() + 30
        while job.folder.exists():
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        assert failures

    run_jobs(test)


def test_old_uploads_are_deleted_at_the_start(run_jobs):
    async def test(bench):
        old, new = bench.write(), bench.write()
        os.utime(old.path, (time.time() - 7200,) * 2)
        async with DocumentJobs(bench.context):
            assert not old.path.exists()
            assert new.path.exists()

    run_jobs(test)


def test_a_job_whose_process_died_ends_with_an_error(run_jobs):
    async def test(bench):
        lost = bench.state.add_document("", "a.txt", "de")
        running = await bench.start_long()
        bench.seconds_later = SILENCE_SECONDS + 10
        # A process confirms the jobs that it translates.
        bench.jobs._expire()
        job = await bench.jobs.wait(lost.id, lost.secret, seconds=5)
        assert (job.status, "restarted" in job.error) == ("error", True)
        assert bench.jobs.find(running.id, running.secret).status != "error"

    run_jobs(test)


def test_stopping_the_server_ends_all_jobs(run_jobs):
    jobs = []

    async def test(bench):
        jobs.extend([bench, *[await bench.start_long() for _ in range(7)]])
        await asyncio.sleep(0.3)

    run_jobs(test)
    bench, *started = jobs
    for job in started:
        ended = bench.state.document(job.id, job.secret)
        assert (ended.status, "stopped" in ended.error) == ("error", True)
        assert not list(job.folder.iterdir())


def test_progress_is_reported_to_other_processes(run_jobs, monkeypatch):
    monkeypatch.setattr("dragoman.serving.document_jobs._REPORT_SECONDS", 0.05)

    async def test(bench):
        job = await bench.start_long()
        other = Bench(bench.state.folder, bench.context.service)
        seen = set()
        while (now := other.jobs.find(job.id, job.secret)).status != "done":
            assert now.status in ("queued", "translating")
            seen.add((now.units_done, now.units))
            await asyncio.sleep(0.05)
        assert any(0 < done < total == 1800 for done, total in seen)
        assert (await other.jobs.wait(job.id, job.secret)).characters > 900
        other.state.close()

    run_jobs(test)


def test_a_client_with_many_documents_does_not_delay_another():
    async def main():
        slots = Slots(2)
        order = []
        events = {}

        async def document(name):
            async with slots.use(name[0]):
                order.append(name)
                events[name] = asyncio.Event()
                await events[name].wait()

        names = ["a1", "a2", "a3", "a4", "b1", "c1", "b2"]
        tasks = {name: asyncio.create_task(document(name)) for name in names}
        await asyncio.sleep(0)
        assert order == ["a1", "a2"]
        # Of those that wait, the oldest of the client with the fewest running documents is next.
        for ended, begun in (("a1", "b1"), ("a2", "a3"), ("b1", "c1"), ("a3", "a4")):
            events[ended].set()
            await tasks[ended]
            await asyncio.sleep(0)
            assert order[-1] == begun
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize("moment", ["while it waits", "when it could begin"])
def test_a_cancelled_document_blocks_no_other(moment):
    async def main():
        slots = Slots(1)

        async def document():
            async with slots.use("a"):
                await asyncio.sleep(0)

        running = slots.use("a")
        await running.__aenter__()
        cancelled, other = asyncio.create_task(document()), asyncio.create_task(document())
        await asyncio.sleep(0)
        if moment == "while it waits":
            cancelled.cancel()
        await running.__aexit__(None, None, None)
        cancelled.cancel()
        await asyncio.wait_for(other, 5)
        assert cancelled.cancelled()
        await asyncio.wait_for(document(), 5)

    asyncio.run(main())


def test_waiting_ends_after_its_time(run_jobs):
    async def test(bench):
        job = await bench.start_long()
        start = time.monotonic()
        assert (await bench.jobs.wait(job.id, job.secret, seconds=0.2)).status != "done"
        assert time.monotonic() - start < 2

    run_jobs(test)


def test_an_error_of_the_server_does_not_show_its_text(run_jobs, caplog):
    async def test(bench):
        class Broken:
            async def translate_document(self, request, caller, on_units):
                raise RuntimeError("canary: the text of a client")

        broken = DocumentJobs(dataclasses.replace(bench.context, service=Broken()))
        job = await broken.start(bench.write(), ONE, target="de")
        ended = await broken.wait(job.id, job.secret)
        assert ended.status == "error"
        assert "canary" not in ended.error + caplog.text
        assert "RuntimeError" in caplog.text

    run_jobs(test)


@pytest.mark.parametrize("name", ["../../x.txt", "..\\x.txt", "/etc/x.txt", "a/./b/x.txt"])
def test_a_name_never_becomes_a_path(run_jobs, tmp_path, name):
    async def test(bench):
        job = await bench.start(name=name)
        assert job.name == "x.txt"
        assert (await bench.jobs.wait(job.id, job.secret)).status == "done"

    run_jobs(test)
    assert not list(tmp_path.rglob("x.txt"))
