"""HTTP connections with time limits: slow clients must not hold connections for ever.

uvicorn limits the pause between requests only. Here, the headers of a request must arrive within a
time, whatever the number of bytes per second, and a client must read its answer. The time of a body
is limited where it is read (`parameters`). The rest of a body that nobody reads, because the answer
did not need it, has the time of headers.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dragoman.serving.interface import Limits

_WRITE_SECONDS = 30.0
_FIRST_SECONDS = 0.5
"""Time for the first request of a connection while the server ends."""


class TimedProtocol(H11Protocol):
    """A connection that is closed if headers or the reading of an answer take too long."""

    limits = Limits()
    """`protocol_with` makes a subclass with other limits."""
    _header_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for headers."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Read; the time of headers runs from their first byte."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE or self._has_unread_body():
            self._await_headers()
        else:
            self._stop_header_timer()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that nobody reads."""
        super().on_response_complete()
        if self._has_unread_body():
            self._await_headers()

    def _has_unread_body(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_header_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection when it is idle; the server ends."""
        if self.cycle is None:
            # The first request of a new connection is on its way.
            self.loop.call_later(_FIRST_SECONDS, self._close_unused)
        else:
            super().shutdown()

    def _close_unused(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            super().shutdown()

    def pause_writing(self) -> None:
        """Start to wait for a client that does not read its answer."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(_WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        self._stop_write_timer()
        super().resume_writing()

    def _await_headers(self) -> None:
        if self._header_timer is None:
            seconds = self.limits.header_seconds
            self._header_timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def protocol_with(limits: Limits) -> type[TimedProtocol]:
    """Return the protocol with these limits."""
    return type("TimedProtocol", (TimedProtocol,), {"limits": limits})
