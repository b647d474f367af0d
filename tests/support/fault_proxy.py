"""A proxy on loopback that spoils a share of the requests to an S3 server.

It forwards requests unchanged, so signatures stay valid. The faults are those of real stores and
networks: errors before and after the request took effect, slow-down answers, lost connections,
bodies that end too early, and lists without the newest objects.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = (
    "error 500",
    "slow down 503",
    "reset",
    "error after effect",
    "reset after effect",
    "cut body",
    "short body",
    "stale list",
)
_HOP = ("connection", "transfer-encoding", "keep-alive")


class FaultProxy(ThreadingHTTPServer):
    """The proxy; `share` of the requests are spoiled, by a seeded choice."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream: str, share: float, faults: tuple[str, ...], seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.share = share
        self.faults = faults
        self.requests = 0
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def choose(self, method: str, path: str) -> str:
        """Choose the fault of a request; empty for none."""
        possible = [fault for fault in self.faults if _is_possible(fault, method, path)]
        with self._lock:
            self.requests += 1
            if not possible or self._random.random() >= self.share:
                return ""
            # Lists are rare, so every second fault of a list is of its own kind.
            is_stale = "stale list" in possible and self._random.random() < 0.5
            fault = "stale list" if is_stale else self._random.choice(possible)
            self.counts[fault] += 1
            return fault

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not print lost connections: they are the purpose."""


def _is_possible(fault: str, method: str, path: str) -> bool:
    if fault == "stale list":
        return method == "GET" and "list-type=2" in path
    if fault in ("cut body", "short body"):
        return method == "GET"
    return True


@contextlib.contextmanager
def fault_proxy(
    upstream: str, share: float = 0.2, faults: tuple[str, ...] = FAULTS, seed: int = 1
) -> Iterator[FaultProxy]:
    """Start a proxy, and stop it at the end."""
    proxy = FaultProxy(upstream, share, faults, seed)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultProxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.choose(self.command, self.path)
        if fault == "error 500":
            self._answer(500, b"<Error><Code>InternalError</Code></Error>")
        elif fault == "slow down 503":
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>")
        elif fault == "reset":
            self._reset()
        else:
            self._spoil(fault, body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815

    def _spoil(self, fault: str, body: bytes) -> None:
        status, headers, answer = self._ask(body)
        if fault == "error after effect":
            self._answer(500, b"<Error><Code>InternalError</Code></Error>")
        elif fault == "reset after effect":
            self._reset()
        elif fault == "cut body" and status < 300 and answer:
            self._send(status, headers, answer[: len(answer) // 2], len(answer))
            self._reset()
        elif fault == "short body" and status < 300 and answer:
            half = answer[: len(answer) // 2]
            self._send(status, headers, half, len(half))
        elif fault == "stale list":
            empty = re.sub(rb"<Contents>.*?</Contents>", b"", answer, flags=re.DOTALL)
            self._send(status, headers, empty, len(empty))
        else:
            length = next((int(v) for k, v in headers if k.lower() == "content-length"), 0)
            self._send(status, headers, answer, len(answer) or length)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=60)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() not in _HOP:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _answer(self, status: int, body: bytes) -> None:
        self._send(status, [("Content-Type", "application/xml")], body, len(body))

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, length: int) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in (*_HOP, "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()

    def _reset(self) -> None:
        """Close the connection with a reset instead of an orderly end."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Do not log."""
