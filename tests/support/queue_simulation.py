"""Random clients and an engine that dies, around the real batching queue on virtual time."""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import dataclass, field

from dragoman.documents.methods import SegmentRequest
from dragoman.inference.joining import Translation
from dragoman.serving.interface import ServiceError
from dragoman.serving.queue import BatchQueue, EngineDiedError, estimate_tokens
from support.sim_loop import SimLoop

POISON = "poison"
"""The engine dies when it translates a text with this word."""
FAULTY = "faulty"
"""The engine answers that it cannot translate a batch with this word."""


@dataclass(eq=False)
class Call:
    """One call of a client, and how it ended."""

    texts: tuple[str, ...]
    client: str
    is_bulk: bool
    options: tuple[bool, int]
    deadline: float = 0.0
    submitted: float = 0.0
    is_first: bool = False
    """True if the client had nothing else in this lane."""
    batches: list[Batch] = field(default_factory=list)
    """One batch per text that has reached the engine, in this order."""
    ended: float | None = None
    was_cancelled: bool = False
    outcome: str = ""
    """`answered`, `cancelled`, or the kind of a `ServiceError`."""


@dataclass(eq=False)
class Batch:
    """One batch that the engine got."""

    number: int
    texts: tuple[str, ...]
    calls: list[Call]
    start: float
    end: float = 0.0
    is_answered: bool = False

    @property
    def is_bulk(self) -> bool:
        return self.calls[0].is_bulk

    @property
    def tokens(self) -> int:
        return sum(map(estimate_tokens, self.texts))


class Metrics:
    """Adds up what the queue reports."""

    def __init__(self) -> None:
        self.segments = self.tokens = self.translated = self.wasted_tokens = self.late = 0
        self.least = 0

    def batch(self, tokens: int, seconds: float) -> None:
        self.translated += tokens

    def wasted(self, tokens: int) -> None:
        self.wasted_tokens += tokens

    def expired(self) -> None:
        self.late += 1

    def waiting(self, segments: int, tokens: int) -> None:
        self.segments += segments
        self.tokens += tokens
        self.least = min(self.least, self.segments, self.tokens)


@dataclass
class Plan:
    """What happens in one simulation."""

    seed: int
    slots: int = 1
    batch_tokens: int = 60
    clients: int = 3
    calls: int = 15
    faults: str = ""
    """Empty, `poison`, `kills` (at any time) or `errors`."""
    is_shuffled: bool = False
    callback_seconds: float = 0.0
    has_equal_sizes: bool = False
    has_cancels: bool = False
    """Also short deadlines."""

    @classmethod
    def random(cls, seed: int) -> Plan:
        """Return a plan for this seed; every fourth one has no faults and the usual order."""
        rng = random.Random(seed)
        is_calm = seed % 4 == 0
        return cls(
            seed,
            slots=rng.choice((1, 1, 2, 3)),
            batch_tokens=rng.choice((20, 60, 200)),
            clients=rng.randint(2, 6),
            calls=rng.randint(4, 18),
            faults="" if is_calm else rng.choice(("", "poison", "kills", "errors")),
            is_shuffled=not is_calm,
            callback_seconds=0.0 if is_calm else rng.choice((0.0, 0.00005, 0.001)),
            has_equal_sizes=is_calm and rng.random() < 0.5,
            has_cancels=rng.random() < 0.7,
        )


class Engine:
    """Translates a batch in a time that depends on its tokens; a death ends all its batches."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seconds_per_token = world.rng.choice((0.0002, 0.001, 0.005))
        self.batches: list[Batch] = []
        self.deaths = 0
        self.deaths_of: dict[str, int] = {}
        self._running: dict[Batch, asyncio.Future[None]] = {}
        self._restart: asyncio.Future[None] | None = None

    async def run(self, request: SegmentRequest) -> list[Translation]:
        """Translate a batch, after the engine was started again if it is dead."""
        world, loop = self.world, self.world.loop
        calls = [world.call_of[text] for text in request.texts]
        options = (request.with_alignment, request.num_hypotheses)
        for call in calls:
            world.check(call.ended is None, "a call that has ended reaches the engine")
            world.check(not call.was_cancelled, "a cancelled call reaches the engine")
            world.check(loop.time() <= call.deadline, "an expired call reaches the engine")
            world.check(call.options == options, "a batch has different options")
        if self._restart is not None:
            await self._restart
        batch = Batch(len(self.batches), request.texts, calls, loop.time())
        is_small = batch.tokens <= world.plan.batch_tokens or len(batch.texts) == 1
        world.check(is_small, "a batch is too large")
        world.check(len(self._running) < world.plan.slots, "too many batches at the same time")
        self.batches.append(batch)
        for call in calls:
            call.batches.append(batch)
        finished = self._running[batch] = loop.create_future()
        seconds = 0.001 + self.seconds_per_token * batch.tokens
        if any(POISON in text for text in batch.texts):
            timer = loop.call_later(seconds * world.rng.random(), self.die, batch)
        else:
            timer = loop.call_later(seconds, lambda: finished.done() or finished.set_result(None))
        try:
            await finished
        finally:
            timer.cancel()
            self._running.pop(batch, None)
            batch.end = loop.time()
        if any(FAULTY in text for text in batch.texts):
            raise world.rng.choice((ServiceError("internal", "cannot"), ZeroDivisionError()))
        batch.is_answered = True
        return [answer_of(text, options) for text in batch.texts]

    def die(self, killer: Batch | None = None) -> None:
        """End the process: all its batches fail, and it is started again."""
        loop = self.world.loop
        if self._restart is not None or (killer is not None and killer not in self._running):
            return
        self.deaths += 1
        for batch, finished in list(self._running.items()):
            for text in batch.texts:
                self.deaths_of[text] = self.deaths_of.get(text, 0) + 1
            if not finished.done():
                finished.set_exception(EngineDiedError())
        self._running.clear()
        self._restart = loop.create_future()
        loop.call_later(0.3 * self.world.rng.random(), self._start)

    def _start(self) -> None:
        assert self._restart is not None
        self._restart.set_result(None)
        self._restart = None


def answer_of(text: str, options: tuple[bool, int]) -> Translation:
    """Return the only right answer for a text with these options."""
    with_alignment, num_hypotheses = options
    alignment = ((0, len(text)),) if with_alignment else ()
    alternatives = tuple(f"{text} {rank}" for rank in range(1, num_hypotheses))
    return Translation(f"<{text}>", 0.0, alignment=alignment, alternatives=alternatives)


@dataclass
class World:
    """One simulation."""

    plan: Plan
    calls: list[Call] = field(default_factory=list)
    call_of: dict[str, Call] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    """An exception inside the simulation would only end one task of it."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.rng = random.Random(plan.seed + 1)
        self.loop = SimLoop(
            plan.seed, is_shuffled=plan.is_shuffled, callback_seconds=plan.callback_seconds
        )
        self.metrics = Metrics()
        self.engine = Engine(self)
        self.queue = BatchQueue(
            self.engine.run, slots=plan.slots, batch_tokens=plan.batch_tokens, metrics=self.metrics
        )
        self._numbers = itertools.count()

    def run(self) -> World:
        """Let all clients call, and wait until all is over."""
        for _ in range(self.plan.calls):
            self.loop.call_later(self.rng.random() * 0.5, self.submit, self.random_call())
        if self.plan.faults == "kills":
            for _ in range(self.rng.randint(1, 6)):
                self.loop.call_later(self.rng.random(), self.engine.die)
        self.loop.run()
        return self

    def random_call(self) -> Call:
        """Make up a call."""
        rng = self.rng
        is_bulk = rng.random() < 0.5
        texts = [self.random_text() for _ in range(rng.choice((1, 5, 20)) if is_bulk else 1)]
        options = (rng.random() < 0.2, rng.choice((1, 1, 1, 3)))
        return Call(tuple(texts), f"client {rng.randrange(self.plan.clients)}", is_bulk, options)

    def random_text(self) -> str:
        """Make up a text that no other call has."""
        word = ""
        if self.rng.random() < 0.05:
            word = {"poison": POISON, "errors": FAULTY}.get(self.plan.faults, "")
        length = 40 if self.plan.has_equal_sizes else self.rng.choice((10, 40, 40, 300))
        return f"{next(self._numbers)} {word}".ljust(length, ".")

    def submit(self, call: Call, seconds: float | None = None) -> asyncio.Task:
        """Send a call to the queue; it may be cancelled, or have little time."""
        rng, loop = self.rng, self.loop
        if seconds is None:
            is_short = self.plan.has_cancels and rng.random() < 0.2
            seconds = rng.random() * 0.5 if is_short else 1000.0
        call.submitted, call.deadline = loop.time(), loop.time() + seconds
        lane = [one for one in self.calls if one.is_bulk == call.is_bulk and one.ended is None]
        call.is_first = all(one.client != call.client for one in lane)
        self.calls.append(call)
        self.call_of.update(dict.fromkeys(call.texts, call))
        task = loop.create_task(self._translate(call))
        # A task that is cancelled before its first step does not run at all.
        task.add_done_callback(lambda _: call.outcome or self._end(call, "cancelled"))
        if self.plan.has_cancels and rng.random() < 0.2:
            loop.call_later(rng.random() * 0.5, self._cancel, call, task)
        return task

    async def _translate(self, call: Call) -> None:
        with_alignment, num_hypotheses = call.options
        request = SegmentRequest(call.texts, with_alignment, num_hypotheses)
        try:
            answers = await self.queue.translate(
                request, client=call.client, deadline=call.deadline, is_bulk=call.is_bulk
            )
        except ServiceError as error:
            self._end(call, error.kind)
        except asyncio.CancelledError:
            self._end(call, "cancelled")
        else:
            is_own = answers == [answer_of(text, call.options) for text in call.texts]
            self.check(is_own, "a call gets the answer of another text")
            self._end(call, "answered")

    def check(self, is_right: bool, violation: str) -> None:
        """Remember a violation of a law."""
        if not is_right:
            self.violations.append(violation)

    def _cancel(self, call: Call, task: asyncio.Task) -> None:
        if not task.done():
            call.was_cancelled = True
            task.cancel()

    def _end(self, call: Call, outcome: str) -> None:
        self.check(not call.outcome, "a call ends twice")
        call.outcome, call.ended = outcome, self.loop.time()
