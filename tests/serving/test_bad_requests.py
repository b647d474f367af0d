"""Malformed requests, slow clients and too large bodies do no harm."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest

from support.http_client import Connection
from support.live_server import live_server
from support.malformed import CASES, JSON, REFUSED, SMUGGLED, Case, get, post
from support.serving import write_stub

LIMITS = {
    "body_bytes": 20_000,
    "upload_bytes": 50_000,
    "texts": 10,
    "characters": 5000,
    "header_seconds": 1.0,
    "body_seconds": 1.0,
    "nesting": 10,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    run = write_stub(folder / "run", function="upper")
    with live_server(folder / "server", run, limits=LIMITS) as live:
        yield live
        assert live.stop() == 0
        assert '"level": "error"' not in live.log()


async def talk(address, data: bytes, *, ends_input: bool = False) -> tuple[bytes, bool]:
    """Send bytes; return what comes back, and whether the server closed the connection."""
    connection = await Connection.open(address)
    connection.send_bytes(data)
    if ends_input:
        connection.end_input()
    try:
        return await connection.read_until_quiet(0.5)
    finally:
        connection.close()


def statuses_of(data: bytes) -> list[int]:
    parts = data.split(b"HTTP/1.1 ")[1:]
    return [int(part[:3]) for part in parts]


def test_malformed_requests_are_refused(server):
    async def check(case: Case) -> str:
        data, is_closed = await talk(server.address, case.data, ends_input=case.ends_input)
        statuses = statuses_of(data) or [0]
        is_right = statuses[0] in case.statuses and max(statuses) < 500
        if case.statuses == REFUSED:
            is_right = is_right and is_closed and len(statuses) == 1
        return "" if is_right else f"{case.name}: {statuses}, closed: {is_closed}"

    async def run():
        mistakes = []
        for start in range(0, len(CASES), 20):
            mistakes += await asyncio.gather(*map(check, CASES[start : start + 20]))
        return [mistake for mistake in mistakes if mistake]

    assert len(CASES) >= 60
    assert asyncio.run(run()) == []
    assert server.translate("Hello.") == "HELLO."


def test_requests_in_a_row_are_answered_in_order(server):
    bodies = [b'{"q":"Text %d.","source":"en","target":"de"}' % number for number in range(50)]
    data = b"".join(post(b"Content-Length: %d\r\n" % len(body), body) for body in bodies)
    data += get(b"Connection: close\r\n")
    answer, is_closed = asyncio.run(talk(server.address, data))
    assert is_closed
    assert statuses_of(answer) == [200] * 51
    positions = [answer.index(b'"TEXT %d."' % number) for number in range(50)]
    assert positions == sorted(positions)


def test_what_follows_a_malformed_request_is_not_read(server):
    answer, is_closed = asyncio.run(talk(server.address, get() + b"\x00\r\n\r\n" + SMUGGLED))
    assert is_closed
    assert statuses_of(answer) == [200, 400]


def test_a_client_may_wait_for_the_permission_to_send_a_body(server):
    async def run():
        connection = await Connection.open(server.address)
        head = post(b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(JSON))
        connection.send_bytes(head)
        first, _ = await connection.read_until_quiet(0.5)
        connection.send_bytes(JSON)
        second, _ = await connection.read_until_quiet(0.5)
        connection.close()
        return statuses_of(first), statuses_of(second)

    assert asyncio.run(run()) == ([100], [200])


TRICKLES = {
    "headers": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n"),
    "request line": (b"GET /", b"a"),
    "body": (post(b"Content-Length: 10000\r\n", b"{"), b" "),
    "chunks": (post(b"Transfer-Encoding: chunked\r\n", b"1\r\n{\r\n"), b"1\r\n \r\n"),
    "body that nobody reads": (
        b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n",
        b" ",
    ),
    "form": (
        b"POST /translate_file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n",
        b"-",
    ),
    "nothing": (b"", b""),
}
"""What slow clients send first, and then again and again."""


async def trickle(address, name: str, *, seconds: float = 0.1, most: float = 30.0) -> float:
    """Send a few bytes now and then; return how long the server bears it."""
    first, again = TRICKLES[name]
    connection = await Connection.open(address)
    start = time.monotonic()
    reading = asyncio.create_task(connection.read_all())
    connection.send_bytes(first)
    try:
        while not reading.done() and time.monotonic() - start < most:
            await asyncio.wait([reading], timeout=seconds)
            connection.send_bytes(again)
        return time.monotonic() - start
    finally:
        connection.close()
        reading.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("name", TRICKLES)
def test_slow_clients_are_closed(server, name):
    assert asyncio.run(trickle(server.address, name)) < 10.0


async def median_seconds(address, count: int) -> float:
    """Return the usual time of a request on a connection of its own."""
    times = []
    for number in range(count):
        start = time.monotonic()
        connection = await Connection.open(address)
        body = {"q": f"Text {number}.", "source": "en", "target": "de"}
        connection.send("POST", "/translate", body)
        response = await connection.receive()
        connection.close()
        assert response.status == 200
        times.append(time.monotonic() - start)
    return statistics.median(times)


async def compare(address, clients: int, count: int) -> float:
    """Return how much slower requests are beside slow clients; both are measured in turns."""
    names = list(TRICKLES)
    ratios = []
    for _ in range(5):
        alone = await median_seconds(address, count)
        tasks = [
            asyncio.create_task(trickle(address, names[number % len(names)], seconds=1.0))
            for number in range(clients)
        ]
        await asyncio.sleep(1)
        ratios.append(await median_seconds(address, count) / alone)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(1)
    print(f"{clients} slow clients: {[round(ratio, 3) for ratio in ratios]}")
    return statistics.median(ratios)


def check_slow_clients(folder, clients: int, count: int, limit: float) -> None:
    run = write_stub(folder / "run", seconds_per_token=0.002)
    # With the usual limits of time, so that all slow clients stay.
    with live_server(folder / "server", run) as live:
        assert asyncio.run(compare(live.address, clients, count)) < limit


@pytest.mark.slow
def test_slow_clients_do_not_slow_others(tmp_path):
    # CI measures on busy cores.
    check_slow_clients(tmp_path, clients=100, count=30, limit=1.5)


@pytest.mark.long
def test_500_slow_clients_do_not_slow_others(tmp_path):
    check_slow_clients(tmp_path, clients=500, count=200, limit=1.1)
