"""The batching queue keeps its promises in thousands of simulated schedules.

The real queue runs on virtual time with random clients, cancels, deadlines and deaths of the
engine. A failure names its seed: `check(World(Plan.random(SEED)).run())` repeats it. What failed
once is a test of its own below.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from dragoman.serving.queue import BatchQueue
from support.queue_simulation import FAULTY, POISON, Call, Plan, World

GATHER_SECONDS = 0.002
INTERACTIVE_TURNS = 4
"""As in `dragoman.serving.queue`."""


def check(world: World) -> None:
    """Check all laws after a simulation."""
    assert not world.violations
    assert not world.loop.errors
    for call in world.calls:
        check_outcome(world, call)
    assert world.queue.is_idle
    assert world.queue.waiting_tokens == 0
    assert world.queue.estimate(0, is_bulk=True) == 0
    metrics, batches = world.metrics, world.engine.batches
    assert (metrics.segments, metrics.tokens, metrics.least) == (0, 0, 0)
    assert metrics.translated == sum(batch.tokens for batch in batches if batch.is_answered)
    late = sum(call.outcome == "overloaded" for call in world.calls)
    cancelled = sum(call.outcome == "cancelled" for call in world.calls)
    assert late <= metrics.late <= late + cancelled
    if not world.plan.faults:
        check_that_slots_are_used(world)
        if not world.plan.is_shuffled:
            check_turns(world)


def check_outcome(world: World, call: Call) -> None:
    """Every call ends once, in time, and fails only for a reason of its own."""
    deaths = world.engine.deaths_of
    slack = 0.0001 + 1000 * world.plan.callback_seconds
    assert call.ended is not None
    assert call.ended <= call.deadline + slack
    if call.outcome == "overloaded":
        assert call.ended >= call.deadline
    elif call.outcome == "internal":
        is_killer = any(deaths.get(text, 0) > 1 for text in call.texts)
        assert is_killer or (world.plan.faults == "errors" and is_near_faulty(call))
    elif call.outcome == "cancelled":
        assert call.was_cancelled
    else:
        assert call.outcome == "answered"
        assert all(POISON not in text for text in call.texts)
    assert all(deaths.get(text, 0) <= 2 for text in call.texts)
    if world.plan.faults == "poison":
        assert all(deaths.get(text, 0) <= 1 for text in call.texts if POISON not in text)


def is_near_faulty(call: Call) -> bool:
    """Whether a batch of this call had a text that the engine cannot translate."""
    return any(FAULTY in text for batch in call.batches for text in batch.texts)


def check_that_slots_are_used(world: World) -> None:
    """While a call waits, no slot is free for longer than the time to gather a batch."""
    slots = world.plan.slots
    for call in world.calls:
        if len(call.batches) < len(call.texts):
            continue
        last = call.batches[-1]
        batches = [
            batch
            for batch in world.engine.batches
            if batch.start < last.start and batch.end > call.submitted
        ]
        busy = sum(
            min(batch.end, last.start) - max(batch.start, call.submitted) for batch in batches
        )
        idle = slots * (last.start - call.submitted) - busy
        per_batch = (0 if slots == 1 else GATHER_SECONDS) + 30 * world.plan.callback_seconds
        assert idle <= slots * per_batch * (len(batches) + 2) + 1e-6


def check_turns(world: World) -> None:
    """Interactive calls pass bulk, and clients take turns."""
    for call in world.calls:
        if len(call.batches) < len(call.texts):
            continue
        last = call.batches[-1]
        waited = [
            batch
            for batch in world.engine.batches[: last.number]
            if batch.start >= call.submitted and call not in batch.calls
        ]
        kinds = Counter(batch.is_bulk for batch in waited)
        if not call.is_bulk:
            assert kinds[True] <= 1 + kinds[False] // INTERACTIVE_TURNS
        if call.is_first:
            check_first_text(world, call)


def check_first_text(world: World, call: Call) -> None:
    """The first text of a client waits for one text of every other client at most."""
    before: list[Call] = []
    count = 0
    for batch in world.engine.batches:
        if batch.is_bulk != call.is_bulk or batch.start < call.submitted:
            continue
        if call.texts[0] in batch.texts:
            before += batch.calls[: batch.texts.index(call.texts[0])]
            break
        count += 1
        before += batch.calls
    assert count < world.plan.clients
    options = {one.options for one in world.calls}
    if world.plan.has_equal_sizes and len(options) == 1:
        assert max(Counter(one.client for one in before).values(), default=0) <= 1


def simulate(first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            check(World(Plan.random(seed)).run())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {Plan.random(seed)}") from error


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 3000, 500))
def test_the_queue_keeps_its_promises(first):
    simulate(first, 500)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1_000_000, 1_500_000, 50_000))
def test_the_queue_keeps_its_promises_for_many_seeds(first):
    simulate(first, 50_000)


def texts_of(name: str, count: int, length: int = 40) -> tuple[str, ...]:
    return tuple(f"{name} {number}".ljust(length, ".") for number in range(count))


def bulk(name: str, count: int, length: int = 40, options: tuple[bool, int] = (False, 1)) -> Call:
    return Call(texts_of(name, count, length), name, True, options)


def run(world: World, *calls: Call, after: float = 0.0) -> list[str]:
    """Submit the first call, the others a little later; return how they ended."""
    world.loop.call_soon(world.submit, calls[0])
    for call in calls[1:]:
        world.loop.call_later(after, world.submit, call)
    world.loop.run()
    check(world)
    return [call.outcome for call in calls]


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("is_bulk", [True, False])
def test_one_text_passes_a_thousand_of_another_client(slots, is_bulk):
    world = World(Plan(1, slots=slots, clients=2))
    small = Call(texts_of("small", 1), "small", is_bulk, (False, 1))
    assert run(world, bulk("large", 1000), small, after=0.1) == ["answered"] * 2
    (batch,) = small.batches
    later = [one for one in world.engine.batches[: batch.number] if one.start > small.submitted]
    assert len(later) <= 1


def test_a_long_text_does_not_wait_for_all_short_ones():
    # A batch has space for five short texts, so the long one never fits behind the first of them.
    world = World(Plan(1, batch_tokens=65, clients=2))
    long = bulk("long", 1, length=200)
    assert run(world, bulk("short", 200), long, after=0.1) == ["answered"] * 2
    later = [one for one in world.engine.batches if long.submitted < one.start]
    assert long.batches[0] in later[:2]


def test_rare_options_do_not_wait_for_all_usual_ones():
    world = World(Plan(1, clients=2))
    rare = bulk("rare", 3, options=(True, 1))
    assert run(world, bulk("usual", 200), rare, after=0.1) == ["answered"] * 2
    later = [one for one in world.engine.batches if rare.submitted < one.start]
    assert rare.batches[0] in later[:2]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_only_the_text_that_ends_the_engine_fails(slots):
    world = World(Plan(1, slots=slots, batch_tokens=200, clients=12, faults="poison"))
    good = [bulk(f"good {number}", 2) for number in range(11)]
    bad = Call((f"this is {POISON}",), "bad", True, (False, 1))
    outcomes = run(world, *good[:5], bad, *good[5:])
    assert Counter(outcomes) == {"answered": 11, "internal": 1}
    assert bad.outcome == "internal"
    assert world.engine.deaths == 2


def test_many_calls_with_the_same_bad_text_end_the_engine_a_few_times_only():
    world = World(Plan(1, batch_tokens=60, clients=60, faults="poison"))
    bad = [Call((f"this is {POISON}",), f"bad {number}", True, (False, 1)) for number in range(50)]
    good = [bulk(f"good {number}", 1) for number in range(50)]
    for call in [one for pair in zip(good, bad, strict=True) for one in pair]:
        world.loop.call_soon(world.submit, call)
    world.loop.run()
    assert not world.violations
    assert {call.outcome for call in bad} == {"internal"}
    assert {call.outcome for call in good} == {"answered"}
    assert world.engine.deaths == 2


def test_a_bad_text_is_refused_for_ten_minutes():
    world = World(Plan(1, faults="poison"))
    calls = [Call((f"this is {POISON}",), "bad", False, (False, 1)) for _ in range(3)]
    for call, start in zip(calls, (0, 500, 700), strict=True):
        world.loop.call_later(start, world.submit, call)
    world.loop.run()
    assert [call.outcome for call in calls] == ["internal"] * 3
    assert [len(call.batches) for call in calls] == [2, 0, 2]


def test_a_call_that_is_cancelled_as_its_batch_starts_does_not_count_as_running():
    # Else the estimate grows with every such call, until the server refuses all requests.
    world = World(Plan(1))
    call = bulk("call", 1)
    world.loop.call_soon(
        lambda: world.loop.call_soon(world._cancel, call, world.submit(call, 20.0))
    )
    world.loop.run()
    assert (call.outcome, world.engine.batches) == ("cancelled", [])
    check(world)


@pytest.mark.parametrize("fault", [None, asyncio.CancelledError(), MemoryError()])
def test_a_faulty_engine_leaves_no_call_waiting(fault):
    world = World(Plan(1))

    async def engine(request):
        if fault is not None:
            raise fault
        return []

    world.queue = BatchQueue(engine, slots=1, batch_tokens=60, metrics=world.metrics)
    call = bulk("call", 3)
    world.loop.call_soon(world.submit, call, 20.0)
    world.loop.run()
    assert call.outcome == "internal"
    assert call.ended == call.submitted
    assert world.queue.is_idle
