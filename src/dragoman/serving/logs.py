"""The log of the server: one JSON object per line, and one line per request.

No line contains a text, a key, a file name or an address. Messages of our own modules are written;
they name no content of a request. Of other libraries only the constant part of a message is
written, and only if the library is known not to fill it in beforehand. Of an exception the type and
the positions in the code are written, never its message.
"""

from __future__ import annotations

import errno
import importlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from dragoman.serving.metrics import CLIENT_GONE, Api, Metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from dragoman.serving.traces import Traces

_log = logging.getLogger("dragoman.serving")
_MAX_FRAMES = 30
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(slots=True)
class RequestNotes:
    """What the parts of the server learn about a request, for its line in the log."""

    texts: int = 0
    characters: int = 0
    key_id: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The line of a request."""

    api: Api
    route: str
    """The template of the route, `/v2/document/{id}`, never the path itself."""
    status: int
    """499: the client closed the connection before the answer."""
    milliseconds: float
    texts: int
    characters: int
    key: str
    """The public id of the key; empty without keys."""
    model: str


_notes: ContextVar[RequestNotes | None] = ContextVar("dragoman_request_notes", default=None)


def note(
    *,
    texts: int | None = None,
    characters: int | None = None,
    key_id: str | None = None,
    model: str | None = None,
) -> None:
    """Add to the log line of the current request; without a request, nothing happens."""
    notes = _notes.get()
    if notes is None:
        return
    if texts is not None:
        notes.texts = texts
    if characters is not None:
        notes.characters = characters
    if key_id is not None:
        notes.key_id = key_id
    if model is not None:
        notes.model = model


class RequestLog:
    """ASGI middleware, outermost: writes a line, counts and traces each request."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        api_of: Callable[[Scope], Api],
        traces: Traces | None = None,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._api_of = api_of
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and record it when its answer has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        notes = RequestNotes()
        token = _notes.set(notes)
        status = 0
        is_answered = False

        async def send_and_look(message: Message) -> None:
            nonlocal status, is_answered
            await send(message)
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                is_answered = not message.get("more_body", False)

        span = self._traces.start(scope) if self._traces is not None else None
        has_failed = False
        try:
            await self._app(scope, receive, send_and_look)
        except Exception as error:
            has_failed = True
            # After an answer the connection can be used again; uvicorn would close it.
            if not is_answered:
                raise
            _log.error("a request failed", exc_info=error)
        finally:
            _notes.reset(token)
            if not is_answered:
                # Without an answer and without an error, the client left.
                status = 500 if has_failed else CLIENT_GONE
            seconds = time.monotonic() - started
            record = RequestRecord(
                api=self._api_of(scope),
                route=str(getattr(scope.get("route"), "path", "unknown")),
                status=status,
                milliseconds=round(seconds * 1000, 1),
                texts=notes.texts,
                characters=notes.characters,
                key=notes.key_id,
                model=notes.model,
            )
            self._metrics.request(record.api, status, seconds)
            _log.info("request", extra={"fields": asdict(record)})
            if self._traces is not None and span is not None:
                self._traces.end(span, scope["method"], record)

    def close(self) -> None:
        """Send the last traces."""
        if self._traces is not None:
            self._traces.close()


def open_traces() -> Traces | None:
    """Return the traces if `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector, else None.

    Without the extra `otel` there are none, and a line of the log says so.
    """
    if not os.environ.get(_ENDPOINT):
        return None
    try:
        exporters = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        traces = importlib.import_module("dragoman.serving.traces")
    except ModuleNotFoundError:
        _log.warning("%s is set; traces need: pip install 'dragoman[otel]'", _ENDPOINT)
        return None
    opened: Traces = traces.Traces(exporters.OTLPSpanExporter())
    return opened


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
        }
        message = _message(record)
        if message:
            line["message"] = message
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = _error_name(record.exc_info[1])
            line["traceback"] = _frames(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


def configure_logs(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Write all logs of this process as JSON lines to a stream (default: standard error).

    Errors of threads and finalizers, which Python prints with their messages, go there as well.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("dragoman").setLevel(level)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True  # It has addresses and query strings.
    threading.excepthook = _log_thread_error
    sys.unraisablehook = _log_unraisable


def _log_thread_error(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None and arguments.exc_type is not SystemExit:
        _log.error("a thread failed", exc_info=arguments.exc_value)


def _log_unraisable(arguments: sys.UnraisableHookArgs) -> None:
    _log.error("an error was ignored", exc_info=arguments.exc_value)


def _message(record: logging.LogRecord) -> str:
    library = record.name.partition(".")[0]
    if library == "dragoman":
        return record.getMessage()
    # uvicorn passes what it read from a connection as arguments. asyncio writes the exception of a
    # task into the message.
    return str(record.msg).strip() if library == "uvicorn" else ""


def _error_name(error: BaseException) -> str:
    """Return the type of an error, and the reason if it is one of a fixed set."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind)
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name} {errno.errorcode.get(error.errno, error.errno)}"
    reason = getattr(error, "sqlite_errorname", "")  # SQLITE_FULL, for example.
    return f"{name} {reason}".strip()


def _full_name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _frames(error: BaseException) -> list[str]:
    """Return where an error was raised, with the errors that caused it; the outermost first."""
    lines: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if cause is not error:
            lines.append(f"caused by {_error_name(cause)}")
        frames = traceback.extract_tb(cause.__traceback__)[-_MAX_FRAMES:]
        lines += [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        cause = cause.__cause__ or cause.__context__
    return lines
