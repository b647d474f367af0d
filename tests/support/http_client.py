"""A small HTTP/1.1 client on asyncio streams: fast, and it shows how a connection ended."""

from __future__ import annotations

import asyncio
import json

from support.live_server import Response


class ConnectionEndedError(Exception):
    """The server closed a connection; `has_data` says whether a part of an answer had come."""

    def __init__(self, has_data: bool) -> None:
        super().__init__("closed in an answer" if has_data else "closed without an answer")
        self.has_data = has_data


class Connection:
    """One connection, for one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.count = 0
        """Requests that were sent."""
        self.is_reusable = True

    @classmethod
    async def open(cls, address: tuple[str, int]) -> Connection:
        """Connect; raises `ConnectionRefusedError` if nobody listens."""
        return cls(*await asyncio.open_connection(*address))

    def send(self, method: str, path: str, body=None, headers=None) -> None:
        """Send a request; a body that is not bytes is sent as JSON."""
        lines = {"Host": "localhost", **(headers or {})}
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            lines.setdefault("Content-Type", "application/json")
            lines["Content-Length"] = str(len(data))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.send_bytes(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that may be anything."""
        self.count += 1
        self._writer.write(data)

    async def receive(self) -> Response:
        """Wait for the answer."""
        head = b""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            status, headers = _parse_head(head)
            body = b""
            if "content-length" in headers:
                body = await self._reader.readexactly(int(headers["content-length"]))
            elif headers.get("transfer-encoding") == "chunked":
                body = await self._read_chunks()
        except asyncio.IncompleteReadError as error:
            self.is_reusable = False
            raise ConnectionEndedError(bool(head or error.partial)) from None
        except OSError:
            self.is_reusable = False
            raise ConnectionEndedError(bool(head)) from None
        if headers.get("connection") == "close":
            self.is_reusable = False
        return Response(status, headers, body)

    async def _read_chunks(self) -> bytes:
        chunks = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            chunks.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(chunks)

    async def read_all(self) -> bytes:
        """Return all bytes until the server closes the connection."""
        chunks = []
        try:
            while chunk := await self._reader.read(1 << 16):
                chunks.append(chunk)
        except OSError:
            pass
        return b"".join(chunks)

    async def read_until_quiet(self, seconds: float) -> tuple[bytes, bool]:
        """Return what comes until nothing comes for a time, and whether the server has closed.

        The first byte has more time.
        """
        data = b""
        try:
            while True:
                async with asyncio.timeout(seconds if data else 20.0):
                    chunk = await self._reader.read(1 << 16)
                if not chunk:
                    return data, True
                data += chunk
        except TimeoutError:
            return data, False
        except OSError:
            return data, True

    def end_input(self) -> None:
        """Say that no more bytes follow."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def close(self) -> None:
        """Close at once, also in the middle of a request."""
        self.is_reusable = False
        self._writer.transport.abort()


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, value in pairs}
