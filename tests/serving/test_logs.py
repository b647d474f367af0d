"""The log: one line of JSON per request; no text, key or address in any output."""

import asyncio
import io
import json
import logging
import os
import socket
import sqlite3
import subprocess
import sys

import fastapi
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dragoman.serving.logs import JsonFormatter, RequestLog, note, open_traces
from dragoman.serving.metrics import Metrics
from dragoman.serving.state import State
from dragoman.serving.traces import Traces
from support.deepl_server import live_server
from support.serving import write_stub

TEXT = "Kanarienvogel-7391"
"""The canary: it must not appear where it does not belong."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Send the canary through all paths; return the answers and all that the server wrote."""
    folder = tmp_path_factory.mktemp("canary")
    state = State(folder / "state")
    key = state.add_key("alice")
    state.close()
    with subprocess.Popen(
        [sys.executable, "-m", "support.canary_server", folder / "state", folder / "spans"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            return key, *_use_server(process, folder, key)
        finally:
            process.kill()


def _use_server(process, folder, key):
    port, metrics_port = map(int, process.stdout.readline().split())
    answers = {}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:

        def post(job, name="x", key=key):
            body = {"text": TEXT, "job": job, "key": key}
            answers[job] = client.post(f"/translate/{name}", json=body, params={"q": TEXT})

        for job in ("ok", "causes", "task", "thread", "finalizer", "library", "glossary"):
            post(job, name=TEXT)
        post("no key", key="")
        post("wrong key", key=f"{key[:-4]}0000")
        answers["path"] = client.get(f"/{TEXT}", headers={TEXT: TEXT, "authorization": key})
        answers["method"] = client.request(TEXT.upper(), f"/translate/{TEXT}")
        answers["body"] = client.post("/translate/x", content=f'{{"{TEXT}'.encode())
        answers["trace"] = client.get(
            "/", headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "a=b"}
        )
    _send_raw(port, f"GET /{TEXT} HTTP/9.9\r\n{TEXT}: \0\r\n\r\n")
    _send_raw(
        port,
        f"GET /{TEXT} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    )
    _leave_early(port, {"text": TEXT, "job": "slow", "key": key})
    metrics = httpx.get(f"http://127.0.0.1:{metrics_port}/metrics").text
    output, errors = process.communicate("", timeout=60)
    lines = [json.loads(line) for line in errors.splitlines()]
    database = sqlite3.connect(folder / "state" / "state.sqlite3")
    sinks = {
        "output": output,
        "log": errors,
        "metrics": metrics,
        "spans": (folder / "spans").read_text(),
        "state": "\n".join(database.iterdump()),
        "files": "\n".join(map(str, folder.rglob("*"))),
    }
    database.close()
    assert process.returncode == 0
    return answers, lines, sinks


def _send_raw(port, request):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request.encode())
        connection.recv(1 << 16)


def _leave_early(port, body):
    data = json.dumps(body).encode()
    head = f"POST /translate/x HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(head.encode() + data)


def requests(lines, **fields):
    return [
        line
        for line in lines
        if line.get("message") == "request" and fields.items() <= line.items()
    ]


@pytest.mark.slow
def test_the_canary_is_in_no_sink(results):
    key, answers, _, sinks = results
    # The paths were taken: the answers are those of the small server.
    statuses = {job: answer.status_code for job, answer in answers.items()}
    assert statuses == {
        "ok": 200,
        "causes": 500,
        "task": 200,
        "thread": 200,
        "finalizer": 200,
        "library": 200,
        "glossary": 400,
        "no key": 400,
        "wrong key": 400,
        "path": 404,
        "method": 405,
        "body": 500,
        "trace": 404,
    }
    assert TEXT.upper() in answers["ok"].text
    secret = key.split("_")[2]
    refused = {job: answer.text for job, answer in answers.items() if answer.status_code >= 400}
    for name, content in (sinks | refused).items():
        for word in (TEXT, TEXT.upper(), secret, secret[:16], "127.0.0.1"):
            assert word not in content, name


@pytest.mark.slow
def test_a_request_is_one_line(results):
    key, _, lines, _ = results
    route = "/translate/{name}"
    (line, *_) = requests(lines, route=route, status=200)
    assert line["milliseconds"] > 0
    expected = {
        "level": "info",
        "logger": "dragoman.serving",
        "api": "native",
        "texts": 1,
        "characters": len(TEXT),
        "key": key.split("_")[1],
        "model": "v1",
    }
    assert expected.items() <= line.items()
    assert len(requests(lines)) == 13 + 2  # The malformed request is none; it never arrived.
    assert len(requests(lines, status=500)) == 2
    assert len(requests(lines, route="unknown", status=404)) >= 2
    assert [entry["key"] for entry in requests(lines, status=400)] == [key.split("_")[1], "", ""]


@pytest.mark.slow
def test_an_error_is_logged_with_its_type_and_position(results):
    _, _, lines, _ = results
    errors = [line for line in lines if "error" in line]
    (missing_file,) = [line for line in errors if line["error"] == "FileNotFoundError ENOENT"]
    text = "\n".join(missing_file["traceback"])
    assert "canary_server.py" in text
    assert "raise_with_causes" in text
    assert "caused by KeyError" in text
    messages = {line.get("message") for line in errors}
    assert {"a thread failed", "an error was ignored"} <= messages
    # asyncio's message contains the exception of the task.
    (task,) = [line for line in errors if line["logger"] == "asyncio"]
    assert "message" not in task
    assert "fail_in_background" in task["traceback"][-1]


@pytest.mark.slow
def test_a_request_is_one_span(results):
    _, _, lines, sinks = results
    decoder = json.JSONDecoder()
    spans, position = [], 0
    text = sinks["spans"]
    while position < len(text):
        span, position = decoder.raw_decode(text, position)
        spans.append(span)
        position += len(text[position:]) - len(text[position:].lstrip())
    assert len(spans) == len(requests(lines))
    (first, *_) = [span for span in spans if span["name"] == "POST /translate/{name}"]
    assert first["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/translate/{name}",
        "http.response.status_code": 200,
        "dragoman.api": "native",
        "dragoman.texts": 1,
        "dragoman.characters": len(TEXT),
        "dragoman.model": "v1",
    }
    assert any(span["name"] == "_OTHER /translate/{name}" for span in spans)
    assert sum(span["status"]["status_code"] == "ERROR" for span in spans) == 2
    assert [span["context"]["trace_id"] for span in spans].count("0x" + "ab" * 16) == 1


@pytest.mark.slow
def test_requests_are_counted(results):
    _, _, lines, sinks = results
    counted = sum(
        float(line.split()[-1])
        for line in sinks["metrics"].splitlines()
        if line.startswith('dragoman_requests_total{api="native"')
    )
    # The client that left early was still being answered when the metrics were read.
    assert counted in (len(requests(lines)), len(requests(lines)) - 1)


START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"x"}


@pytest.mark.parametrize(
    ("messages", "error", "status", "is_raised"),
    [
        ([START, BODY], None, 200, False),
        ([START, BODY | {"more_body": True}, BODY], None, 200, False),
        ([], None, 499, False),
        ([START, BODY | {"more_body": True}], None, 499, False),
        ([], asyncio.CancelledError(), 499, True),
        ([], ValueError(TEXT), 500, True),
        ([START, BODY | {"more_body": True}], ValueError(TEXT), 500, True),
        ([START, BODY], ValueError(TEXT), 200, False),  # The answer is complete.
    ],
)
def test_the_status_of_a_request(caplog, messages, error, status, is_raised):
    async def app(scope, receive, send):
        for message in messages:
            await send(message)
        if error:
            raise error

    async def ignore(message):
        pass

    log = RequestLog(app, Metrics(), lambda scope: "deepl")
    scope = {"type": "http", "method": "GET", "headers": []}
    with caplog.at_level(logging.INFO, "dragoman.serving"):
        try:
            asyncio.run(log(scope, None, ignore))
        except (ValueError, asyncio.CancelledError) as seen:
            assert is_raised
            assert type(seen) is type(error)
        else:
            assert not is_raised
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [line["status"] for line in requests(lines)] == [status]
    is_logged = any(line.get("error") == "ValueError" for line in lines)
    assert is_logged == (error is not None and not is_raised)


def logged(log):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("dragoman.serving.test")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        log(logger)
    finally:
        logger.removeHandler(handler)
    return json.loads(stream.getvalue())


def test_a_message_is_one_line_of_json():
    line = logged(lambda logger: logger.warning("two\nlines, %d, “é”", 5))
    assert line["message"] == "two\nlines, 5, “é”"
    assert line["level"] == "warning"
    assert line["time"].endswith("Z")
    assert line["process"] == os.getpid()


def test_the_reason_of_a_database_error_is_logged(tmp_path):
    state = State(tmp_path)

    def log(logger):
        try:
            state._connection().execute("SELECT nothing FROM nowhere")
        except sqlite3.OperationalError:
            logger.exception("failed")

    assert logged(log)["error"] == "sqlite3.OperationalError SQLITE_ERROR"
    state.close()


def test_notes_without_a_request_are_ignored():
    note(texts=1, characters=2, key_id="x", model="y")


def test_traces_are_off_without_a_collector(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert open_traces() is None


def test_the_last_traces_are_sent_when_the_server_ends():
    exporter = InMemorySpanExporter()
    log = RequestLog(None, Metrics(), lambda _: "native", Traces(exporter))
    log.close()
    # An exporter that is shut down takes nothing more.
    assert exporter.export([]) is SpanExportResult.FAILURE


@pytest.mark.slow
def test_the_web_framework_sends_no_traces_of_its_own(monkeypatch, tmp_path):
    """FastAPI would trace each request, with the messages of errors."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    bare = fastapi.FastAPI()
    transport = httpx.ASGITransport(bare)
    asyncio.run(httpx.AsyncClient(transport=transport, base_url="http://x").get("/"))
    assert exporter.get_finished_spans(), "FastAPI has other traces than this test knows"
    exporter.clear()
    with live_server(tmp_path, write_stub(tmp_path / "run", function="upper")) as live:
        body = {"q": TEXT, "source": "en", "target": "de"}
        assert httpx.post(f"{live.url}/translate", json=body).status_code == 200
        assert httpx.post(f"{live.url}/translate", json=body | {"target": "xx"}).status_code == 400
    assert not exporter.get_finished_spans()


def test_a_missing_package_for_traces_is_said(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with caplog.at_level(logging.WARNING, "dragoman.serving"):
        assert open_traces() is None
    assert "pip install 'dragoman[otel]'" in caplog.text
