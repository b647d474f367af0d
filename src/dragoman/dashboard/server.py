"""Serves the dashboard of a run while it is being trained, to browsers on this machine only.

    GET /KEY/                            the page
    GET /KEY/data?journal=N&samples=M    what is new since these positions, and the status

The server listens on the loopback interface. The address contains a random key, because other users
of the machine can reach that interface too. The name in the `Host` header must be a name of this
machine, so that a web page cannot reach the server by a name that it controls (DNS rebinding).
Requests run in threads of the training process; they only read files.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from dragoman.dashboard.page import live_policy, render_live
from dragoman.dashboard.run_data import Heading, Position, read_points
from dragoman.errors import DragomanError, ListenError, Stopped
from dragoman.training.events import TrainingEvent, UpdateCompleted

HOST = "127.0.0.1"
LOCAL_NAMES = {"127.0.0.1", "localhost", "::1"}
POLL_SECONDS = 2.0
"""How often the page asks; `html/main.js` has the same number."""
_LAST_ANSWER_SECONDS = 3 * POLL_SECONDS
"""How long the server waits at the end until an open page has asked once more."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the training."""

    state: Literal["training", "finished", "stopped", "failed"] = "training"
    text: str = ""
    """How it ended."""
    step: int = 0
    elapsed_seconds: float = 0.0
    seconds_left: float | None = None


class DashboardServer:
    """Serves the page of one run."""

    def __init__(self, folder: Path, heading: Heading, step: int, port: int = 0) -> None:
        self._folder, self._page = folder, render_live(heading).encode()
        self.policy = f"{live_policy()}; frame-ancestors 'none'"
        self._status = Status(step=step)
        self._key = secrets.token_urlsafe(16)
        self._last_request = float("-inf")
        self._is_end_seen = threading.Event()
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            raise ListenError(
                f"the dashboard cannot listen on {HOST} port {port}: {error.strerror}. Choose "
                "another --dashboard-port (0 = any free port)"
            ) from None
        self._server.dashboard = self

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self._server.server_address[1]}/{self._key}/"

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Answer requests inside a `with` block; at its end, tell an open page how it ended."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield
            self._end("finished", "")
        except Stopped as error:
            self._end("stopped", str(error))
            raise
        except DragomanError as error:
            self._end("failed", str(error))
            raise
        except BaseException:
            self._end("failed", "")
            raise
        finally:
            self._server.shutdown()
            self._server.server_close()

    def show(self, event: TrainingEvent) -> None:
        """Update the status by an event of the training."""
        if isinstance(event, UpdateCompleted):
            self._status = replace(
                self._status,
                step=event.step,
                elapsed_seconds=round(event.elapsed_seconds, 1),
                seconds_left=round(event.seconds_left, 1),
            )

    def answer(self, path: str, query: str) -> tuple[str, bytes] | None:
        """Return media type and body of the answer; None if there is no such page."""
        page, data = f"/{self._key}/", f"/{self._key}/data"
        if path == page:
            return "text/html; charset=utf-8", self._page
        if path == data:
            return "application/json", self._data(_position(query))
        return None

    def _data(self, since: Position) -> bytes:
        self._last_request = time.monotonic()
        status = self._status  # First the status: after the end there are no new points.
        points = read_points(self._folder, since)
        body = {"points": points.model_dump(mode="json"), "status": asdict(status)}
        if status.state != "training":
            self._is_end_seen.set()
        return json.dumps(body, separators=(",", ":")).encode()

    def _end(self, state: Literal["finished", "stopped", "failed"], text: str) -> None:
        self._status = replace(self._status, state=state, text=text, seconds_left=None)
        is_watched = time.monotonic() - self._last_request < _LAST_ANSWER_SECONDS
        if is_watched and self._is_end_seen.wait(_LAST_ANSWER_SECONDS):
            time.sleep(0.1)  # The thread that answers may still be sending.


class _Server(ThreadingHTTPServer):
    """The HTTP server; a request that fails changes nothing in the training."""

    daemon_threads = True
    dashboard: DashboardServer

    def server_bind(self) -> None:
        """Bind the port. The base class would also look up the name of the machine."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a failed request; the terminal belongs to the training."""
        _log.info("a request to the dashboard failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    server: _Server
    timeout = 10.0
    server_version = "Dragoman"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request for the page or its data."""
        if _host_name(self.headers.get("Host", "")) not in LOCAL_NAMES:
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"unknown host name\n")
            return
        url = urlsplit(self.path)
        answer = self.server.dashboard.answer(url.path, url.query)
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")
            return
        self._send(HTTPStatus.OK, *answer)

    def _send(self, status: HTTPStatus, media_type: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": media_type,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self.server.dashboard.policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError, TimeoutError):  # The browser was closed.
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log: the terminal belongs to the training."""


def _host_name(header: str) -> str:
    """Return the name in a `Host` header, without the port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _position(query: str) -> Position:
    """Read the positions of a request; a wrong one counts as 0."""
    values = parse_qs(query)
    numbers = [values.get(name, ["0"])[0] for name in ("journal", "samples")]
    journal, samples = (
        int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0
        for number in numbers
    )
    return Position(journal=journal, samples=samples)
