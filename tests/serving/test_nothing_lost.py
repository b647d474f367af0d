"""Every accepted request is answered once, with its own answer, by one version of the model.

Requests are cancelled, models reloaded, engines killed and the server drained, under load.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time

import pytest

from dragoman.serving.state import State
from support.history import Client
from support.http_client import Connection
from support.live_server import LiveServer, live_server
from support.serving import write_stub

RATE = 200.0
SECONDS_PER_TOKEN = 0.0003


def write_version(folder, version: int, **more) -> None:
    prefix = f"V{version} "
    write_stub(
        folder, version=str(version), prefix=prefix, seconds_per_token=SECONDS_PER_TOKEN, **more
    )


async def wait_for(condition, seconds: float = 60.0):
    """Wait until an awaited condition is true."""
    end = time.monotonic() + seconds
    while not (value := await condition()):
        assert time.monotonic() < end, "this did not happen in time"
        await asyncio.sleep(0.1)
    return value


async def disturb(server: LiveServer, client: Client, folder) -> None:
    """Reload twice, fail to reload once, and kill engines twice, while requests are sent."""

    async def version_is(version: int) -> bool:
        return await client.read_version() == version

    async def metric_is(name: str, value: float) -> bool:
        return (await asyncio.to_thread(server.metrics))[name] >= value

    await asyncio.sleep(1)
    write_version(folder, 2)
    server.reload()
    await wait_for(lambda: version_is(2))
    await asyncio.sleep(0.5)
    kill_engines(server)
    await asyncio.sleep(1)
    write_version(folder, 3, is_broken=True)
    server.reload()
    await wait_for(lambda: metric_is('dragoman_model_reloads_total{result="failed"}', 1))
    assert await client.read_version() == 2
    write_version(folder, 4)
    server.reload()
    await wait_for(lambda: version_is(4))
    # The engine that is started again has another model than the requests began with.
    write_version(folder, 5)
    kill_engines(server)
    await wait_for(lambda: version_is(5))


def kill_engines(server: LiveServer) -> None:
    for engine in server.engines():
        with contextlib.suppress(ProcessLookupError):
            os.kill(engine, signal.SIGKILL)


async def drain(server: LiveServer, client: Client, count: int) -> None:
    """End the server under load."""
    load = asyncio.create_task(client.send(count, RATE))
    await asyncio.sleep(0.5 * count / RATE)
    server.process.send_signal(signal.SIGTERM)
    await load
    await client.wait()


async def run_history(server: LiveServer, folder, count: int) -> Client:
    client = Client(server.address, seed=count)
    disturbance = asyncio.create_task(disturb(server, client, folder))
    await client.send(count, RATE)
    while not disturbance.done():
        await client.send(20, RATE)
    await disturbance
    await client.wait()
    metrics = await asyncio.to_thread(server.metrics)
    assert metrics["dragoman_queue_tokens"] == metrics["dragoman_queue_segments"] == 0
    assert metrics["dragoman_engine_restarts_total"] >= 1
    ended = sum(value for name, value in metrics.items() if "dragoman_requests_total" in name)
    outcomes = client.history.outcomes()
    assert outcomes["answered"] <= ended <= len(client.history.entries)
    assert outcomes["unconnected"] == 0
    await drain(server, client, min(count // 10, 300))
    client.close()
    return client


def check_history(tmp_path, count: int) -> None:
    run = tmp_path / "run"
    write_version(run, 1)
    with live_server(tmp_path / "server", run, batch_tokens=128) as server:
        client = asyncio.run(run_history(server, run, count))
        client.history.check()
        outcomes = client.history.outcomes()
        print(dict(outcomes))
        assert outcomes["answered"] > 0.6 * count
        assert outcomes["cancelled"] > 0.02 * count
        assert server.process.wait(60) == 0
        assert "Text " not in server.log()


@pytest.mark.slow
def test_no_request_is_lost(tmp_path):
    check_history(tmp_path, 2000)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_request_of_20_000_is_lost(tmp_path):
    check_history(tmp_path, 20_000)


@pytest.mark.slow
def test_a_quota_is_shared_by_processes_and_never_exceeded(tmp_path):
    run = tmp_path / "run"
    write_version(run, 1)
    folder = tmp_path / "server"
    state = State(folder / "state")
    key = state.add_key("test", characters_per_month=1000)
    text = "Fifty characters are in this text, counted by one."
    assert len(text) == 50

    async def send(address) -> int:
        connection = await Connection.open(address)
        headers = {"Authorization": f"Bearer {key}"}
        body = {"texts": [text], "source": "en", "target": "de"}
        connection.send("POST", "/v1/translate", body, headers)
        response = await connection.receive()
        connection.close()
        return response.status

    async def send_all(address) -> list[int]:
        return await asyncio.gather(*(send(address) for _ in range(60)))

    with live_server(folder, run, processes=2, requires_keys=True) as server:
        statuses = asyncio.run(send_all(server.address))
        assert (statuses.count(200), statuses.count(402)) == (20, 40)
        (known,) = state.keys()
        assert state.usage(known.id).characters == 1000
        assert server.stop() == 0
    state.close()
