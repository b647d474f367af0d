"""An asyncio event loop on virtual time, with a seeded order of callbacks, for simulations.

No second passes in reality: when nothing is ready, the clock jumps to the next timer. asyncio runs
ready callbacks in the order in which they were scheduled. This loop takes any of them, so that code
that works only in one order fails for some seed. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events


class SimLoop(asyncio.AbstractEventLoop):
    """Runs callbacks and timers; it has no sockets, threads or processes."""

    def __init__(self, seed: int, *, is_shuffled: bool = True, callback_seconds: float = 0.0):
        self._rng = random.Random(seed)
        self._is_shuffled = is_shuffled
        self._callback_seconds = callback_seconds
        """Longest time that one callback takes."""
        self._now = 1000.0
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self.errors: list[str] = []
        """What asyncio would log: exceptions of callbacks, and those that nobody retrieved."""

    def run(self) -> None:
        """Run until no callback and no timer is left."""
        asyncio.set_event_loop(None)
        events._set_running_loop(self)
        try:
            while self._ready or self._timers:
                self._step()
        finally:
            events._set_running_loop(None)

    def _step(self) -> None:
        if not self._ready and self._timers:
            self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(self._timers)[2])
        row = self._rng.randrange(len(self._ready)) if self._is_shuffled else 0
        handle = self._ready.pop(row)
        if not handle.cancelled():
            handle._run()
            self._now += self._callback_seconds * self._rng.random()

    def time(self) -> float:
        return self._now

    def call_soon(self, callback, *args, context=None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay, callback, *args, context=None) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when its time comes."""

    def create_future(self) -> asyncio.Future:
        return asyncio.Future(loop=self)

    def create_task(self, coro, *, name=None, context=None) -> asyncio.Task:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context) -> None:
        self.errors.append(f"{context['message']}: {context.get('exception')!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False
