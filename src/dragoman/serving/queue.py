"""The batching queue: segments of all clients wait here for one model.

A call puts its segments into the queue and waits. When the engine has a free slot, a batch is made
of waiting segments, up to a number of tokens. Interactive calls go first, and bulk gets a turn
after a few interactive batches. Within a lane the clients take turns, one segment at a time, so
that a client with a large text delays others by one batch only. The segments of a call that was
cancelled or whose deadline has passed never reach the model.

If the engine dies, the texts of its batches are translated again, each alone and with nothing
beside it, so that only the text that ends the engine a second time fails.

Numbers of tokens are estimated from the length of the text. The speed of the engine is measured, so
that `estimate` can say how long a new call would wait.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dragoman.documents.methods import SegmentRequest
from dragoman.inference.joining import Translation
from dragoman.serving.interface import ServiceError

_log = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN = 3.5
_FIRST_SPEED = 2000.0
"""Tokens per second and slot, before the first batch is measured."""
_SMOOTHING = 0.2
_BULK_SECONDS = 0.3
"""Longest bulk batch, as estimated: an interactive call may have to wait for it."""
_INTERACTIVE_TURNS = 4
"""Interactive batches in a row while bulk is waiting."""
_GATHER_SECONDS = 0.002
"""Time to wait for more segments while other calls are being translated."""
_QUARANTINE_SECONDS = 600.0
_QUARANTINED = "the engine failed twice on this text"
_LATE = "the server is busy; the translation could not be finished in time. Try again later"


class EngineDiedError(Exception):
    """The process of the engine ended before it answered."""


class QueueMetrics(Protocol):
    """What the queue reports."""

    def batch(self, tokens: int, seconds: float) -> None:
        """Record a batch that was translated."""
        ...

    def wasted(self, tokens: int) -> None:
        """Record tokens that were translated for a call that was cancelled."""
        ...

    def expired(self) -> None:
        """Record a call whose deadline passed."""
        ...

    def engine_restarted(self) -> None:
        """Record an engine that was started again."""
        ...

    def waiting(self, segments: int, tokens: int) -> None:
        """Add to what waits in all queues; a negative number is subtracted."""
        ...


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, with its end token."""
    return 1 + round(len(text) / CHARACTERS_PER_TOKEN)


@dataclass(eq=False, slots=True)
class _Call:
    """Texts of one client that are translated with the same options."""

    request: SegmentRequest
    client: str
    is_bulk: bool
    deadline: float
    done: asyncio.Future[list[Translation]]
    results: list[Translation | None] = field(default_factory=list)
    missing: int = 0

    def is_over(self, now: float) -> bool:
        return self.done.done() or now > self.deadline


@dataclass(eq=False, slots=True)
class _Item:
    """One text of a call."""

    call: _Call
    row: int
    tokens: int
    is_suspect: bool = False
    """True if the engine died while it translated a batch with this text."""

    @property
    def text(self) -> str:
        return self.call.request.texts[self.row]

    @property
    def options(self) -> tuple[bool, int]:
        return self.call.request.with_alignment, self.call.request.num_hypotheses


class _Lane:
    """Waiting items by client; clients take turns."""

    def __init__(self) -> None:
        self.clients: OrderedDict[str, deque[_Item]] = OrderedDict()
        self.tokens = 0
        self.segments = 0

    def put(self, client: str, items: Sequence[_Item]) -> None:
        self.clients.setdefault(client, deque()).extend(items)
        self.tokens += sum(item.tokens for item in items)
        self.segments += len(items)

    def take(self, max_tokens: int, now: float) -> list[_Item]:
        """Take items with the same options for a batch; forget calls that are over.

        A client whose next item does not fit is the first one of the next batch, so that a long
        text or rare options never wait for all short texts of others.
        """
        batch: list[_Item] = []
        used = 0
        passed: list[tuple[str, deque[_Item]]] = []
        while self.clients and (not batch or used < max_tokens):
            client, items = self.clients.popitem(last=False)
            while items and items[0].call.is_over(now):
                self._forget(items)
            if not items:
                continue
            item = items[0]
            if batch and not self._fits(item, batch[0], used, max_tokens):
                passed.append((client, items))
                continue
            self._forget(items)
            batch.append(item)
            used += item.tokens
            if items:
                self.clients[client] = items
        for client, items in reversed(passed):
            self.clients[client] = items
            self.clients.move_to_end(client, last=False)
        return batch

    def _forget(self, items: deque[_Item]) -> None:
        self.tokens -= items.popleft().tokens
        self.segments -= 1

    @staticmethod
    def _fits(item: _Item, first: _Item, used: int, max_tokens: int) -> bool:
        return item.options == first.options and used + item.tokens <= max_tokens

    def drop(self, call: _Call) -> None:
        """Forget the items of a call."""
        items = self.clients.get(call.client, ())
        kept = deque(item for item in items if item.call is not call)
        if len(kept) == len(items):
            return
        self.tokens -= sum(item.tokens for item in items if item.call is call)
        self.segments -= len(items) - len(kept)
        if kept:
            self.clients[call.client] = kept
        else:
            del self.clients[call.client]


Run = Callable[[SegmentRequest], Awaitable[Sequence[Translation]]]
"""Translates one batch; raises `EngineDiedError` if the engine ended."""


class BatchQueue:
    """Collects segments into batches for one model; `slots` batches run at the same time."""

    def __init__(
        self, run: Run, *, slots: int, batch_tokens: int, metrics: QueueMetrics | None = None
    ) -> None:
        self._run = run
        self.slots = slots
        self.batch_tokens = batch_tokens
        self.metrics = metrics
        self.speed = _FIRST_SPEED
        self._interactive, self._bulk = _Lane(), _Lane()
        # Texts of batches in which the engine died.
        self._suspects = _Lane()
        self._is_isolated = False
        self._running: set[asyncio.Task[None]] = set()
        self._running_tokens = 0
        self._turns = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._is_gathered = False
        self._quarantine: dict[bytes, float] = {}
        self._reported = (0, 0)

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait, without those being translated."""
        return self._interactive.tokens + self._bulk.tokens + self._suspects.tokens

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is being translated."""
        return not self._running and not self.waiting_tokens

    def estimate(self, tokens: int, *, is_bulk: bool) -> float:
        """Estimate the seconds until a new call with so many tokens would be finished."""
        ahead = self._interactive.tokens + self._suspects.tokens + self._running_tokens
        if is_bulk:
            ahead += self._bulk.tokens
        return (ahead + tokens) / (self.speed * self.slots)

    async def translate(
        self, request: SegmentRequest, *, client: str, deadline: float, is_bulk: bool
    ) -> list[Translation]:
        """Wait until all texts are translated; `deadline` is a time of the event loop."""
        loop = asyncio.get_running_loop()
        if not request.texts:
            return []
        self._quarantine = {key: end for key, end in self._quarantine.items() if end > loop.time()}
        if any(map(self._is_quarantined, request.texts)):
            raise ServiceError("internal", _QUARANTINED)
        call = _Call(request, client, is_bulk, deadline, loop.create_future())
        call.results = [None] * len(request.texts)
        call.missing = len(request.texts)
        items = [_Item(call, row, estimate_tokens(text)) for row, text in enumerate(request.texts)]
        (self._bulk if is_bulk else self._interactive).put(client, items)
        self._report()
        expiry = loop.call_at(deadline, self._expire, call)
        self._dispatch()
        try:
            return await call.done
        finally:
            expiry.cancel()
            if not call.done.done() or call.missing:
                call.done.cancel()
                for lane in (self._interactive, self._bulk, self._suspects):
                    lane.drop(call)
                self._report()

    def _expire(self, call: _Call) -> None:
        if not call.done.done():
            if self.metrics is not None:
                self.metrics.expired()
            call.done.set_exception(ServiceError("overloaded", _LATE))

    def _dispatch(self) -> None:
        """Start batches while there are free slots and waiting items."""
        loop = asyncio.get_running_loop()
        while self.waiting_tokens and len(self._running) < self.slots and not self._is_isolated:
            # A suspect is translated alone: if the engine dies again, this text is the reason.
            if self._suspects.tokens and self._running:
                break
            if self._must_gather(loop):
                break
            batch = self._next_batch(loop.time())
            if not batch:
                break
            self._is_isolated = batch[0].is_suspect
            tokens = sum(item.tokens for item in batch)
            self._running_tokens += tokens
            task = loop.create_task(self._translate(batch))
            self._running.add(task)
            task.add_done_callback(functools.partial(self._finish, tokens))
        self._report()

    def _must_gather(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Wait a moment for more items if other batches keep the engine busy meanwhile."""
        if self._is_gathered:
            self._is_gathered = False
            return False
        if not self._running or self.waiting_tokens >= self.batch_tokens:
            return False
        if self._gathering is None:
            self._gathering = loop.call_later(_GATHER_SECONDS, self._gathered)
        return True

    def _gathered(self) -> None:
        self._gathering = None
        self._is_gathered = True
        self._dispatch()
        self._is_gathered = False

    def _next_batch(self, now: float) -> list[_Item]:
        if suspects := self._suspects.take(1, now):
            return suspects
        lanes = [self._interactive, self._bulk]
        is_bulk_turn = self._turns >= _INTERACTIVE_TURNS and self._bulk.tokens
        for lane in reversed(lanes) if is_bulk_turn else lanes:
            budget = self.batch_tokens
            if lane is self._bulk:
                budget = min(budget, round(self.speed * _BULK_SECONDS))
            # Slots share the work, so that the clients of a long batch do not come back together.
            share = -(-(lane.tokens + self._running_tokens) // self.slots)
            batch = lane.take(min(budget, share), now)
            if batch:
                self._turns = 0 if lane is self._bulk else self._turns + 1
                return batch
        return []

    async def _translate(self, batch: list[_Item]) -> None:
        loop = asyncio.get_running_loop()
        batch = [item for item in batch if self._is_wanted(item, loop.time())]
        if not batch:
            return
        with_alignment, num_hypotheses = batch[0].options
        request = SegmentRequest(tuple(item.text for item in batch), with_alignment, num_hypotheses)
        start = loop.time()
        try:
            answers = await self._run(request)
            if len(answers) != len(batch):
                raise ValueError("the engine has not answered all texts")
        except EngineDiedError:
            self._retry(batch, loop.time())
            return
        except ServiceError as error:
            for item in batch:
                _fail(item.call, error)
            return
        # A fault of ours, or the end of the server, must not leave the calls waiting.
        except (Exception, asyncio.CancelledError) as error:
            # Only the type: a message may contain text of a client.
            _log.error("a batch failed: %s", type(error).__name__)
            for item in batch:
                _fail(item.call, ServiceError("internal", "the server failed; see its log"))
            return
        self._give(batch, answers, loop.time() - start)

    def _give(self, batch: list[_Item], answers: Sequence[Translation], seconds: float) -> None:
        """Give the answers to their calls, and measure the speed."""
        tokens = sum(item.tokens for item in batch)
        self.speed += _SMOOTHING * (tokens / max(seconds, 1e-4) - self.speed)
        wasted = 0
        for item, answer in zip(batch, answers, strict=True):
            call = item.call
            if call.done.done():
                wasted += item.tokens
                continue
            call.results[item.row] = answer
            call.missing -= 1
            if not call.missing:
                call.done.set_result([one for one in call.results if one is not None])
        if self.metrics is not None:
            self.metrics.batch(tokens, seconds)
            self.metrics.wasted(wasted)

    def _is_wanted(self, item: _Item, now: float) -> bool:
        """Whether a text is still to be translated; it may be quarantined since it waits."""
        if self._is_quarantined(item.text):
            _fail(item.call, ServiceError("internal", _QUARANTINED))
        return not item.call.is_over(now)

    def _retry(self, batch: list[_Item], now: float) -> None:
        """Queue the items of a dead engine again, each alone; fail those that were there twice."""
        for item in batch:
            if item.is_suspect:
                self._quarantine[_digest(item.text)] = now + _QUARANTINE_SECONDS
                _fail(item.call, ServiceError("internal", _QUARANTINED))
            elif not item.call.is_over(now):
                item.is_suspect = True
                self._suspects.put(item.call.client, [item])

    def _is_quarantined(self, text: str) -> bool:
        return bool(self._quarantine) and _digest(text) in self._quarantine

    def _finish(self, tokens: int, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._running_tokens -= tokens
        self._is_isolated = False
        self._dispatch()

    def _report(self) -> None:
        if self.metrics is None:
            return
        lanes = (self._interactive, self._bulk, self._suspects)
        now = (sum(lane.segments for lane in lanes), self.waiting_tokens)
        before, self._reported = self._reported, now
        self.metrics.waiting(now[0] - before[0], now[1] - before[1])


def _fail(call: _Call, error: ServiceError) -> None:
    if not call.done.done():
        call.done.set_exception(error)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
