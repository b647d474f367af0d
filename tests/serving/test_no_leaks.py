"""Texts, keys, file names and addresses appear in no log line, metric, error or left file.

Unusual words are sent on every path, those that succeed and those that fail. Then everything that
the server has written is searched for them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.serving.state import State
from support.http_client import Connection
from support.live_server import fetch, live_server
from support.serving import write_stub
from support.stub_worker import CRASH

TEXT = "Zanzibarkatzenberg"
PLACE = f"{TEXT} {TEXT}"
"""In place of a language; an error may repeat what looks like the code of a language."""
NAME = "Donaudampfschiff"
WRONG_KEY = "Kanarienvogelschluessel"


def multipart(fields: dict[str, str], file: bytes | None = None, name: str = "") -> bytes:
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    if file is not None:
        head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        parts.append(head.encode() + file + b"\r\n")
    return b"".join([*parts, b"--x--\r\n"])


FORM = {"Content-Type": "multipart/form-data; boundary=x"}
URLENCODED = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}


def requests(key: str):
    """Yield (method, path, body, headers) for many ways to succeed and to fail."""
    bearer = {"Authorization": f"Bearer {key}"}
    deepl = {"Authorization": f"DeepL-Auth-Key {key}"}
    sentence = f"The {TEXT} sleeps."
    for api_key in (key, WRONG_KEY, ""):
        for source, target in (("en", "de"), ("auto", "de"), (PLACE, "de"), ("en", PLACE)):
            values = {"q": sentence, "source": source, "target": target, "api_key": api_key}
            yield "POST", "/translate", values, {}
            yield "POST", "/translate", multipart(values), FORM
            query = "&".join(f"{name}={value.replace(' ', '+')}" for name, value in values.items())
            yield "POST", "/translate", query.encode(), URLENCODED
            yield "POST", f"/translate?{query}", b"", {}
            yield "POST", "/detect", values, {}
            yield "POST", "/suggest", values | {"s": sentence}, {}
            yield "GET", f"/translate?langpair={source}|{target}&q={TEXT}&key={api_key}", None, {}
        for name, file in (
            (f"{NAME}.txt", sentence.encode()),
            (f"{NAME}.docx", sentence.encode()),
            (f"{NAME}.{TEXT}", sentence.encode()),
            (f"../{NAME}.po", f'msgid "{TEXT}'.encode()),
            (f"{NAME}.html", f"<p>{sentence}</p>".encode()),
            (f"{NAME}.json", f'{{"a": "{TEXT}'.encode()),
        ):
            values = {"source": "en", "target": "de", "api_key": api_key}
            yield "POST", "/translate_file", multipart(values, file, name), FORM
            native = FORM | {"Authorization": f"Bearer {api_key}"}
            yield "POST", "/v1/documents", multipart(values, file, name), native
            values = {"source_lang": "EN", "target_lang": "DE", "auth_key": api_key}
            yield "POST", "/v2/document", multipart(values, file, name), FORM
    for headers in (bearer, deepl, {"Authorization": WRONG_KEY}, {}):
        for source in ("EN", "", PLACE):
            yield (
                "POST",
                "/v2/translate",
                {
                    "text": [sentence],
                    "source_lang": source,
                    "target_lang": "DE",
                    "context": TEXT,
                    "glossary_id": TEXT if source else "",
                },
                headers,
            )
        for more in ({}, {"alignment": True}, {"sentences": True}, {"format": "html"}, {TEXT: 1}):
            values = {"texts": [sentence, f"<b>{TEXT}"], "target": "de", **more}
            yield "POST", "/v1/translate", values, headers
        yield "POST", "/v1/translate", {"texts": TEXT, "target": [TEXT]}, headers
        yield "POST", "/v1/explain", {"text": sentence, "target": "de"}, headers
        yield "POST", "/v1/detect", {"text": sentence}, headers
        yield "GET", f"/v1/documents/{TEXT}", None, headers
        yield "GET", f"/v2/glossaries/{TEXT}/entries", None, headers
        yield (
            "POST",
            "/v2/glossaries",
            {
                "name": NAME,
                "source_lang": "en",
                "target_lang": TEXT,
                "entries": f"{TEXT}\t{TEXT}\t{TEXT}",
                "entries_format": "tsv",
            },
            headers,
        )
        yield "POST", f"/v2/document/{TEXT}", {"document_key": TEXT}, headers
        yield "GET", f"/{TEXT}?{TEXT}={TEXT}", None, headers
        yield "BREW", f"/{TEXT}", None, headers
        for body in (f'{{"q": "{TEXT}', f'{{"{TEXT}": NaN}}', f'["{TEXT}"]', f'"{TEXT}\\ud800"'):
            for path in ("/translate", "/v2/translate", "/v1/translate", "/v1/suggestions"):
                yield "POST", path, body.encode(), {**headers, **JSON}
        long = {"texts": [TEXT] * 2000, "target": "de", "source": "en"}
        yield "POST", "/v1/translate", long, headers
    crash = {"texts": [f"{TEXT}: {CRASH}."], "target": "de", "source": "en"}
    yield "POST", "/v1/translate", crash, bearer
    yield "POST", "/v1/translate", crash, bearer


MALFORMED = (
    f"GET /{TEXT}\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    f"GET / HTTP/1.1\r\nHost: x\r\n{TEXT}\r\n\r\n",
    f"{TEXT}\r\n\r\n",
    f"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{TEXT}\r\n",
)


async def send_malformed(address) -> list[bytes]:
    answers = []
    for text in MALFORMED:
        connection = await Connection.open(address)
        connection.send_bytes(text.encode())
        answers.append((await connection.read_until_quiet(2.0))[0])
        connection.close()
    return answers


@pytest.mark.slow
def test_nothing_of_a_request_is_written_anywhere(tmp_path):
    folder = tmp_path / "server"
    state = State(folder / "state")
    key = state.add_key("test")
    state.close()
    run = write_stub(tmp_path / "run")
    personal = {"User-Agent": TEXT, "Cookie": TEXT, "X-Forwarded-For": "203.0.113.77"}
    statuses: dict[int, int] = {}
    errors = []
    with live_server(folder, run, requires_keys=True, batch_tokens=64) as server:
        for method, path, body, headers in requests(key):
            target = path.replace(" ", "%20").replace("|", "%7C")
            response = server.request(method, target, body, personal | headers)
            statuses[response.status] = statuses.get(response.status, 0) + 1
            if response.status >= 400:
                errors.append((method, path, response))
        malformed = asyncio.run(send_malformed(server.address))
        metrics = fetch(server.host, server.metrics_port, "GET", "/metrics").body
        assert server.stop() == 0
        log = server.log()
    print(statuses)
    assert {200, 400, 403, 404, 413, 500} < statuses.keys()
    for method, path, response in errors:
        words = words_in(response.body + str(response.headers).encode(), key)
        assert not words, (method, path, response)
    # Of what is no HTTP, nothing comes back.
    assert not any(words_in(answer, key) for answer in malformed)
    assert not words_in(metrics, key)
    assert not words_in(log.encode(), key), [
        line for line in log.splitlines() if words_in(line.encode(), key)
    ][:5]
    assert "127.0.0.1" not in log
    assert "203.0.113" not in log
    assert not list(server.temporary.rglob("*"))
    secret = key.encode()
    for file in filter(Path.is_file, folder.rglob("*")):
        assert secret not in file.read_bytes(), file


def words_in(data: bytes, key: str) -> list[str]:
    """Return which of the unusual words are in some bytes."""
    text = data.decode("utf-8", "replace").lower()
    secret = key.rpartition("_")[2] or key
    return [word for word in (TEXT, NAME, WRONG_KEY, secret) if word.lower() in text]
