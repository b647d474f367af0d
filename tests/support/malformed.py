"""Raw requests that no server should misunderstand."""

from __future__ import annotations

from dataclasses import dataclass

REFUSED = frozenset({400})
"""The server answers 400 and closes the connection."""
JSON = b'{"q":"Hello","source":"en","target":"de"}'


@dataclass(frozen=True)
class Case:
    """Bytes that a client sends, and which statuses may come back; 0 = closed without answer."""

    name: str
    data: bytes
    statuses: frozenset[int] = REFUSED
    ends_input: bool = False
    """True if the client then closes its side of the connection."""


def post(headers: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    """A request to /translate with these headers, each of which ends with a newline."""
    head = b"POST /translate HTTP/" + version + b"\r\nHost: localhost\r\n"
    return head + b"Content-Type: application/json\r\n" + headers + b"\r\n" + body


def get(headers: bytes = b"", target: bytes = b"/languages") -> bytes:
    """A request without a body."""
    return b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"


def chunked(body: bytes, headers: bytes = b"") -> bytes:
    """A request whose body is given with its chunks."""
    return post(b"Transfer-Encoding: chunked\r\n" + headers, body)


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
SIZE = b"%d" % len(JSON)
CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(JSON), JSON)

LINES = [
    Case("only a method", b"GET\r\n\r\n"),
    Case("no version", b"GET /\r\n\r\n"),
    Case("unknown version", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n"),
    Case("no host", b"GET / HTTP/1.1\r\n\r\n"),
    Case("two hosts", get(b"Host: other\r\n")),
    Case("two spaces", b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n"),
    Case("tab in the request line", b"GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n"),
    Case("small letters in the version", b"GET / http/1.1\r\nHost: x\r\n\r\n"),
    Case("NUL in the method", b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n"),
    Case("NUL in the target", get(target=b"/lang\x00uages")),
    Case("space in the target", get(target=b"/lang uages")),
    Case("line break in the target", get(target=b"/lang\ruages")),
    Case("bytes in the target", get(target=b"/\xff\xfe"), frozenset({400, 404})),
    Case("percent-encoded NUL", get(target=b"/%00"), frozenset({400, 404})),
    Case("percent-encoded surrogate", get(target=b"/%ed%a0%80"), frozenset({400, 404})),
    Case("parent folders", get(target=b"/../../etc/passwd"), frozenset({400, 404})),
    Case("encoded parents", get(target=b"/%2e%2e/%2e%2e/etc/passwd"), frozenset({400, 404})),
    Case("other server", get(target=b"http://other.example/smuggled"), frozenset({400, 404})),
    Case("a tunnel", b"CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
         frozenset({400, 404, 405})),
    Case("options of the server", b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
         frozenset({400, 404, 405})),
    Case("unknown method", b"BREW /languages HTTP/1.1\r\nHost: x\r\n\r\n", frozenset({405})),
    Case("small letters in the method", b"get /languages HTTP/1.1\r\nHost: x\r\n\r\n",
         frozenset({400, 405})),
    Case("long target", get(target=b"/" + b"a" * 100_000), frozenset({400, 404})),
    Case("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Case("TLS", bytes.fromhex("160301020001000001fc0303") + bytes(500) + b"\r\n\r\n"),
    Case("random bytes", bytes(range(256)) * 8 + b"\r\n\r\n"),
    Case("only spaces", b" " * 100 + b"\r\n\r\n"),
]  # fmt: skip

HEADERS = [
    Case("no colon", get(b"Header\r\n")),
    Case("space before the colon", post(b"Content-Length : " + SIZE + b"\r\n", JSON)),
    Case("no name", get(b": value\r\n")),
    Case("space in a name", get(b"X Y: value\r\n")),
    Case("NUL in a value", get(b"X: a\x00b\r\n")),
    Case("carriage return in a value", get(b"X: a\rb\r\n")),
    Case("control character in a name", get(b"X\x0b: value\r\n")),
    Case("space before the first header", b"GET / HTTP/1.1\r\n Host: x\r\n\r\n"),
    Case("long header", get(b"X: " + b"a" * 200_000 + b"\r\n")),
    Case("many headers", get(b"".join(b"X-%d: 1\r\n" % number for number in range(20_000)))),
    Case("headers without an end", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 30_000),
    Case("expects something unknown", post(b"Expect: tea\r\nContent-Length: " + SIZE + b"\r\n",
         JSON), frozenset({200, 400, 417})),
    Case("wants WebSocket", get(b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
         b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"),
         frozenset({200, 400})),
    Case("wants HTTP/2", get(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
         b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n"), frozenset({200, 400})),
]  # fmt: skip

LENGTHS = [
    Case("two lengths", post(b"Content-Length: 5\r\nContent-Length: 50\r\n", JSON + SMUGGLED)),
    Case("two lengths in one header", post(b"Content-Length: 5, 50\r\n", JSON + SMUGGLED)),
    *(
        Case(f"length {text!r}", post(b"Content-Length: " + text + b"\r\n", JSON))
        for text in (b"-1", b"+41", b"0x29", b"4 1", b"", b"1e3", b"41.0", "٤١".encode(), b"41;")
    ),
    Case("huge length", post(b"Content-Length: " + b"9" * 19 + b"\r\n", JSON),
         frozenset({400, 413})),
    Case("endless length", post(b"Content-Length: " + b"9" * 5000 + b"\r\n", JSON),
         frozenset({400, 413})),
    Case("length and chunks", post(b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
         CHUNK + SMUGGLED)),
    Case("chunks and length", post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
         CHUNK + SMUGGLED)),
    *(
        Case(f"encoding {text!r}", post(b"Transfer-Encoding: " + text + b"\r\n", CHUNK),
             frozenset({400, 501}))
        for text in (b"gzip, chunked", b"chunked, chunked", b"xchunked", b"identity",
                     b"\x0bchunked", b"chunked, identity", b'"chunked"', b"chun\xeeked")
    ),
    Case("two encodings", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
         CHUNK), frozenset({400, 501})),
    Case("chunks of HTTP/1.0", post(b"Transfer-Encoding: chunked\r\n", CHUNK, b"1.0")),
    Case("body that ends early", post(b"Content-Length: 1000\r\n", JSON), frozenset({0, 400}),
         ends_input=True),
]  # fmt: skip

CHUNKS = [
    *(
        Case(f"chunk size {size!r}", chunked(size + b"\r\n" + JSON + b"\r\n0\r\n\r\n"),
             frozenset({400, 413}))
        for size in (b"-29", b"0x29", b"g", b"", b"29 29", b"F" * 17, b"F" * 200, b"+29",
                     b"29\x00", b" 29")
    ),
    Case("chunk longer than its size", chunked(b"5\r\n" + JSON + b"\r\n0\r\n\r\n")),
    Case("chunk without newline", chunked(CHUNK.replace(b"}\r\n", b"}XX"))),
    Case("long chunk extension", chunked(b"29;" + b"x" * 100_000 + b"\r\n" + JSON
         + b"\r\n0\r\n\r\n"), frozenset({200, 400})),
    Case("many trailers", chunked(b"%x\r\n%s\r\n0\r\n" % (len(JSON), JSON)
         + b"X: y\r\n" * 50_000 + b"\r\n")),
    Case("bad trailer", chunked(b"%x\r\n%s\r\n0\r\nX\x00: y\r\n\r\n" % (len(JSON), JSON))),
    Case("chunks that end early", chunked(b"29\r\n" + JSON[:10]), frozenset({0, 400}),
         ends_input=True),
]  # fmt: skip

CASES = [*LINES, *HEADERS, *LENGTHS, *CHUNKS]
