"""Sends many requests to a server and remembers all of them, so that their history can be checked.

Every text is unique. The engine is a stub that writes its version before each sentence, so an
answer shows which text it belongs to and which version of the model translated it.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field

from support.http_client import Connection, ConnectionEndedError
from support.live_server import Response

VERSION = re.compile(r"V(\d+) ")
REFUSED = {503, 529}


@dataclass(eq=False)
class Entry:
    """One request."""

    number: int
    start: float
    end: float = 0.0
    outcome: str = ""
    """`answered`, `refused` (the server has no time), `cancelled` (by the client), `unconnected`,
    `invalid` (and answered so), `lost` (accepted and not answered) or `wrong`."""
    version: int = 0
    detail: str = ""


@dataclass
class History:
    """All requests so far."""

    entries: list[Entry] = field(default_factory=list)

    def outcomes(self) -> Counter[str]:
        return Counter(entry.outcome for entry in self.entries)

    def check(self) -> None:
        """Check that every request ended once and rightly, and how versions follow each other."""
        bad = [entry for entry in self.entries if entry.outcome in ("", "lost", "wrong")]
        assert not bad, bad[:5]
        answered = sorted(
            (entry for entry in self.entries if entry.version), key=lambda entry: entry.start
        )
        by_end = sorted(answered, key=lambda entry: entry.end)
        newest = 0
        ended = iter(by_end)
        last = next(ended, None)
        for entry in answered:
            # What was read before this request began is the oldest version that it may see.
            while last is not None and last.end < entry.start:
                newest = max(newest, last.version)
                last = next(ended, None)
            assert entry.version >= newest, (entry, newest)


class Client:
    """Sends requests of several APIs; some on new connections, some on old ones."""

    def __init__(self, address: tuple[str, int], seed: int, *, most_open: int = 64) -> None:
        self.address = address
        self.history = History()
        self.share_cancelled = 0.1
        self.share_invalid = 0.0
        self._rng = random.Random(seed)
        self._idle: list[Connection] = []
        self._slots = asyncio.Semaphore(most_open)
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, count: int, per_second: float) -> None:
        """Start requests at a rate, whether or not earlier ones have ended."""
        start = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, start + number / per_second - time.monotonic()))
            await self._slots.acquire()
            task = asyncio.create_task(self._call())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until all requests have ended."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def close(self) -> None:
        """Close the connections that wait for another request."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def read_version(self) -> int:
        """Read the version of the model from its description; it is a request like others."""
        entry = self._begin()
        connection = await Connection.open(self.address)
        connection.send("GET", "/v1/models")
        response = await connection.receive()
        connection.close()
        entry.version = int(response.json()["models"][0]["version"])
        self._end(entry, "answered")
        return entry.version

    def _begin(self) -> Entry:
        entry = Entry(len(self.history.entries), time.monotonic())
        self.history.entries.append(entry)
        return entry

    def _end(self, entry: Entry, outcome: str, detail: str = "") -> None:
        assert not entry.outcome, "a request ends twice"
        entry.end, entry.outcome, entry.detail = time.monotonic(), outcome, detail

    async def _call(self) -> None:
        entry = self._begin()
        is_cancelled = self._rng.random() < self.share_cancelled
        seconds = self._rng.random() * 0.05 if is_cancelled else None
        try:
            async with asyncio.timeout(seconds):
                await self._exchange(entry)
        except TimeoutError:
            self._end(entry, "cancelled")
        finally:
            self._slots.release()

    async def _exchange(self, entry: Entry) -> None:
        """Send a request; once again if an old connection was closed before it was sent."""
        texts, path, body = self._request(entry.number)
        for is_first in (True, False):
            if is_first and self._idle and self._rng.random() < 0.7:
                connection = self._idle.pop()
            else:
                try:
                    connection = await Connection.open(self.address)
                except ConnectionRefusedError:
                    self._end(entry, "unconnected")
                    return
            try:
                connection.send("POST", path, body)
                response = await connection.receive()
            except ConnectionEndedError as error:
                connection.close()
                if connection.count > 1 and not error.has_data:
                    continue
                self._end(entry, "lost", f"{error}, request {connection.count} of a connection")
                return
            except BaseException:  # The client gives up.
                connection.close()
                raise
            if connection.is_reusable:
                self._idle.append(connection)
            else:
                connection.close()
            self._judge(entry, texts, response)
            return

    def _request(self, number: int) -> tuple[list[str], str, object]:
        if self._rng.random() < self.share_invalid:
            return [], "/translate", b'{"q": "Text '
        count = self._rng.choice((1, 1, 1, 5))
        texts = [
            f"Text {number} of row {row} is {self._rng.getrandbits(64):x}. It has two sentences."
            for row in range(count)
        ]
        kind = self._rng.randrange(3)
        if kind == 0:
            query = texts[0] if count == 1 else texts
            return texts, "/translate", {"q": query, "source": "en", "target": "de"}
        if kind == 1:
            return texts, "/v2/translate", {"text": texts, "source_lang": "EN", "target_lang": "DE"}
        return texts, "/v1/translate", {"texts": texts, "source": "en", "target": "de"}

    def _judge(self, entry: Entry, texts: list[str], response: Response) -> None:
        """Compare an answer with its request."""
        if not texts and response.status == 400:
            self._end(entry, "invalid")
            return
        if response.status in REFUSED:
            self._end(entry, "refused")
            return
        if response.status != 200:
            self._end(entry, "wrong", f"status {response.status}: {response.body[:200]!r}")
            return
        answers = _answers(response.json())
        versions = {int(version) for version in VERSION.findall(" ".join(answers))}
        if [VERSION.sub("", answer) for answer in answers] != texts:
            self._end(entry, "wrong", f"{texts} became {answers}")
        elif len(versions) != 1:
            self._end(entry, "wrong", f"versions {versions} in one answer")
        else:
            entry.version = versions.pop()
            self._end(entry, "answered")


def _answers(value) -> list[str]:
    if "translatedText" in value:
        answer = value["translatedText"]
        return [answer] if isinstance(answer, str) else answer
    return [translation["text"] for translation in value["translations"]]
