"""What happens around every request: security headers, ambiguous requests and disconnects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
]


class SecurityHeaders:
    """Adds headers that keep pages and answers private; the answer is never cached."""

    def __init__(self, app: ASGIApp, is_draining: Callable[[], bool]) -> None:
        self.app = app
        self.is_draining = is_draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                names = {name.lower() for name, _ in headers}
                headers += [header for header in _HEADERS if header[0] not in names]
                if b"cache-control" not in names:
                    headers.append((b"cache-control", b"no-store"))
                if self.is_draining():
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        await self.app(scope, receive, send_with_headers)


class RefuseAmbiguous:
    """Refuses requests whose end a proxy may see at another place, so that none is hidden in one.

    Such requests pass h11, which reads chunks if there is a length as well.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not _is_ambiguous(scope):
            await self.app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": b"Invalid HTTP request received."})


def _is_ambiguous(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    has_chunks = b"transfer-encoding" in names
    is_known = scope["http_version"] in ("1.0", "1.1")
    is_wrong = has_chunks and (b"content-length" in names or scope["http_version"] == "1.0")
    return is_wrong or not is_known


class CancelOnDisconnect:
    """Stops the work for a client that has gone."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or stop when its client disconnects."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # One message is read ahead, so that a disconnect is seen while the answer is computed.
        messages: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)
        is_answered = False

        async def watched_send(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.body" and not message.get("more_body"):
                is_answered = True
            await send(message)

        work = asyncio.ensure_future(self.app(scope, messages.get, watched_send))

        async def read() -> None:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" and not is_answered:
                    work.cancel()
                await messages.put(message)
                if message["type"] == "http.disconnect":
                    return

        reader = asyncio.ensure_future(read())
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            work.cancel()
            raise
        finally:
            reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            work.result()
