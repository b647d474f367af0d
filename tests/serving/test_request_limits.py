"""Limits of size, nesting and number, and bad values, in all APIs of a live server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.http_client import Connection, ConnectionEndedError
from support.live_server import live_server
from support.serving import write_stub

LIMITS = {
    "body_bytes": 20_000,
    "upload_bytes": 50_000,
    "texts": 10,
    "characters": 5000,
    "nesting": 10,
}
KINDS = {
    "/translate": lambda texts: {"q": texts, "source": "en", "target": "de"},
    "/v2/translate": lambda texts: {"text": texts, "source_lang": "EN", "target_lang": "DE"},
    "/v1/translate": lambda texts: {"texts": texts, "source": "en", "target": "de"},
}
LONG = {"/translate": {400}, "/v2/translate": {413}, "/v1/translate": {413}}
"""What each API answers to a request that is too long."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    run = write_stub(folder / "run", function="upper")
    with live_server(folder / "server", run, limits=LIMITS) as live:
        yield live
        assert live.stop() == 0
        assert '"level": "error"' not in live.log()
        # No upload stays.
        assert not list(live.temporary.iterdir())


def resident(server) -> float:
    """Return the megabytes that the server uses."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.parametrize("path", KINDS)
def test_too_many_texts_and_characters_are_refused(server, path):
    body = KINDS[path]
    assert server.request("POST", path, body(["a"] * 10)).status == 200
    assert server.request("POST", path, body(["a"] * 11)).status in LONG[path]
    assert server.request("POST", path, body(["a" * 4999])).status == 200
    assert server.request("POST", path, body(["a" * 2500, "b" * 2501])).status in LONG[path]
    # The length of the text counts, not that of its bytes.
    data = json.dumps(body(["ä" * 4999]), ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json"}
    assert server.request("POST", path, data, headers).status == 200


@pytest.mark.parametrize("path", [*KINDS, "/detect", "/v1/detect", "/v2/document", "/nothing"])
def test_a_body_that_is_too_large_is_not_stored(server, path):
    async def run(headers: dict[str, str], chunk: bytes) -> int:
        connection = await Connection.open(server.address)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.send_bytes(f"POST {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        answer = asyncio.create_task(connection.receive())
        try:
            for _ in range(1000):
                connection.send_bytes(chunk)
                await asyncio.wait([answer], timeout=0.002)
                if answer.done():
                    break
            return (await answer).status
        except ConnectionEndedError:
            return 0
        finally:
            connection.close()

    before = resident(server)
    data = b"x" * 65536
    chunk = b"%x\r\n%s\r\n" % (len(data), data)
    kind = {"Content-Type": "application/json"}
    statuses = [
        asyncio.run(run(kind | {"Content-Length": "65536000"}, data)),
        asyncio.run(run(kind | {"Transfer-Encoding": "chunked"}, chunk)),
    ]
    assert all(400 <= status < 500 for status in statuses), statuses
    assert resident(server) < before + 16


@pytest.mark.parametrize(
    ("path", "field", "values"),
    [
        ("/translate_file", "file", {"source": "en", "target": "de"}),
        ("/v2/document", "file", {"source_lang": "EN", "target_lang": "DE"}),
        ("/v1/documents", "file", {"source": "en", "target": "de"}),
    ],
)
def test_an_upload_that_is_too_large_is_refused(server, path, field, values):
    def send(size: int) -> int:
        lines = [
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in values.items()
        ]
        head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="a.txt"\r\n\r\n'
        body = "".join([*lines, head, "word " * (size // 5), "\r\n--x--\r\n"]).encode()
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        return server.request("POST", path, body, headers).status

    assert send(100) in (200, 201, 202)
    assert send(60_000) in (400, 413)


BAD_JSON = {
    "deep lists": b"[" * 5000 + b"]" * 5000,
    "deep objects": b'{"a":' * 2000 + b"1" + b"}" * 2000,
    "deep and open": b"[" * 10_000,
    "not a number": b'{"q": NaN, "text": NaN, "texts": NaN}',
    "infinity": b'{"q": 1e999, "text": 1e999, "texts": [1e999]}',
    "huge number": b'{"q": "a", "texts": ["a"], "alternatives": ' + b"9" * 5000 + b"}",
    "lone surrogate": b'{"q": "\\ud800", "text": ["\\ud800"], "texts": ["\\ud800"]}',
    "lone surrogate in a name": b'{"\\udfff": 1}',
    "NUL byte": b'{"q": "a\x00"}',
    "not UTF-8": b'{"q": "\xff\xfe"}',
    "UTF-16": '{"q": "a"}'.encode("utf-16"),
    "two values": b"{} {}",
    "nothing": b"",
    "a text": b'"a"',
    "a list": b'["a"]',
    "null": b"null",
    "many equal names": b"{" + b'"q": "a",' * 1500 + b'"q": 1}',
    "wrong types": b'{"q": {"a": 1}, "text": 5, "texts": {"a": 1}, "source": [], "target": {}}',
    "nested texts": b'{"q": [["a"]], "text": [["a"]], "texts": [["a"]]}',
    "comment": b'{"q": "a" /* b */}',
    "single quotes": b"{'q': 'a'}",
    "cut": b'{"q": "a", "sour',
}


@pytest.mark.parametrize("path", [*KINDS, "/detect", "/v1/detect", "/suggest", "/v1/suggestions"])
def test_bad_json_is_refused(server, path):
    for name, body in BAD_JSON.items():
        response = server.request("POST", path, body, {"Content-Type": "application/json"})
        assert 400 <= response.status < 500, name
        assert isinstance(response.json(), dict), name


BAD_FORMS = {
    "no boundary": ("multipart/form-data", b"--x\r\n"),
    "empty boundary": ("multipart/form-data; boundary=", b"--\r\n\r\n----\r\n"),
    "no end": (
        "multipart/form-data; boundary=x",
        b"--x\r\nContent-Disposition: form-data\r\n\r\na",
    ),
    "no name": (
        "multipart/form-data; boundary=x",
        b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n",
    ),
    "no disposition": ("multipart/form-data; boundary=x", b"--x\r\n\r\na\r\n--x--\r\n"),
    "not a form": ("multipart/form-data; boundary=x", b"hello"),
    "bytes in a header": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="\xff\x00"\r\n\r\na\r\n--x--\r\n',
    ),
    "many parts": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 300 + b"--x--\r\n",
    ),
    "long header": (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="'
        + b"a" * 15_000
        + b'"\r\n\r\n\r\n--x--\r\n',
    ),
    "broken percent": ("application/x-www-form-urlencoded", b"q=%zz&target=%ff%fe"),
    "many fields": ("application/x-www-form-urlencoded", b"a=&" * 5000),
    "unknown type": ("application/x-unknown", b"\x00\x01"),
    "unknown character set": ("application/json; charset=klingon", b"{}"),
    "compressed": ("application/json", b"\x1f\x8b\x08\x00\x00"),
}


@pytest.mark.parametrize("path", [*KINDS, "/detect", "/translate_file", "/v2/document"])
def test_bad_forms_are_refused(server, path):
    for name, (kind, body) in BAD_FORMS.items():
        response = server.request("POST", path, body, {"Content-Type": kind})
        assert 400 <= response.status < 500, (name, response)
        json.loads(response.body)


def test_long_query_strings_and_odd_paths_are_refused(server):
    for target in ("/translate?q=" + "a" * 30_000, "/languages?" + "a=1&" * 5000, "/%ff/%00", "//"):
        response = server.request("GET", target)
        assert response.status < 500
    assert server.translate("Hello.") == "HELLO."
