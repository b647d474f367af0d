"""The memory, descriptors and threads of the server do not grow with the number of requests."""

from __future__ import annotations

import asyncio
import os
import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.history import Client
from support.live_server import LiveServer, live_server
from support.serving import write_stub

BATCH = 500
"""Requests between two measurements."""


@dataclass(frozen=True)
class Use:
    """What a process uses."""

    megabytes: float
    descriptors: int
    threads: int


def use_of(process_id: int) -> Use:
    folder = Path(f"/proc/{process_id}")
    lines = (folder / "status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return Use(
        int(values["VmRSS"].split()[0]) / 1024,
        len(os.listdir(folder / "fd")),
        int(values["Threads"]),
    )


async def measure(server: LiveServer, count: int) -> list[Use]:
    """Send requests, and measure the server while it is idle after each group."""
    client = Client(server.address, seed=count, most_open=16)
    client.share_cancelled = client.share_invalid = 0.05
    uses = []
    for _ in range(count // BATCH):
        await client.send(BATCH, per_second=10_000)
        await client.wait()
        client.close()
        client.history.check()
        client.history.entries.clear()
        await asyncio.sleep(0.3)
        uses.append(use_of(server.process.pid))
    return uses


def slope(values: list[float]) -> float:
    """Return the growth per value, by the median of all pairs: single peaks do not count."""
    return statistics.median(
        (values[j] - values[i]) / (j - i) for j in range(len(values)) for i in range(j)
    )


def check_memory(folder, count: int, warm_up: int, megabytes_per_10_000: float) -> None:
    run = write_stub(folder / "run", prefix="V1 ")
    with live_server(folder / "server", run) as server:
        uses = asyncio.run(measure(server, warm_up + count))[warm_up // BATCH :]
        growth = slope([use.megabytes for use in uses]) * 10_000 / BATCH
        print(f"{uses[0]} to {uses[-1]}: {growth:.2f} MB per 10,000 requests")
        assert growth < megabytes_per_10_000
        assert uses[-1].descriptors <= uses[0].descriptors + 2
        assert uses[-1].threads <= uses[0].threads + 2


@pytest.mark.slow
def test_memory_does_not_grow(tmp_path):
    # So few requests show a leak of more than 0.5 kB per request.
    check_memory(tmp_path, 3000, 1000, megabytes_per_10_000=5)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_memory_does_not_grow_in_100_000_requests(tmp_path):
    check_memory(tmp_path, 100_000, 10_000, megabytes_per_10_000=1)
