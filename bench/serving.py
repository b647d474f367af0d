"""Speed of the server compared with bare CTranslate2 or LibreTranslate, and behavior under load.

    python bench/serving.py RUN SENTENCES [--clients 32] [--texts 1] [--repeats 5] [--overload]
    python bench/serving.py RUN SENTENCES --beside http://127.0.0.1:5001 [--beside-pid PID]

RUN is a run with a CTranslate2 export, or an export. SENTENCES is a text file, one sentence per
line. Ours: `dragoman serve` in its own process; HTTP clients with one connection each, which send
a request as soon as the one before is answered. Theirs: CTranslate2 in one process, tokens in,
tokens out, all sentences in one call, with the batch size and threads that are fastest here.
Ours and theirs alternate; medians of the repeats. `wall` is their seconds divided by ours (above 1
we are faster), `cpu` is our CPU seconds divided by theirs. CPU seconds of the clients do not count.

`--beside URL` adds another LibreTranslate server that is already running: the same clients send it
the same requests, and it alternates with the others. It must have the same model. `beside_wall` and
`beside_cpu` are computed as `wall` and `cpu`. `beside_cpu` needs `--beside-pid` and counts that
process and its children. `--no-compare` leaves out bare CTranslate2.

The clients use the same cores as the servers, and so make them slower. To measure one core without
them, start this with `taskset -c 0` and `--client-core 1`.

`--idle` measures one request at a time on an idle server. `--overload` sends ten times what the
server can do, at fixed times (an open loop), and `--mixed` measures interactive requests beside a
client with bulk. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil


class Measured(NamedTuple):
    """Seconds of one run."""

    wall: float
    cpu: float


class Bare:
    """CTranslate2 without anything around it."""

    def __init__(self, run: str, sentences: Sequence[str]) -> None:
        from dragoman import Translator

        with Translator.load(run) as ours:
            export = Path(run) / "ctranslate2"
            self.folder = str(export if export.exists() else run)
            ids = ours._encode(list(sentences))
            names = ours.engine.source_names  # type: ignore[attr-defined]
            self.tokens = [[names[one] for one in row] for row in ids]
            self.beam_size = ours.settings.beam_size

    def measure(self, workers: int, batch_tokens: int) -> Measured:
        """Translate all sentences in a process of its own."""
        code = (
            "import ctranslate2,json,sys,time\n"
            "folder,tokens,beam,workers,batch=json.load(sys.stdin)\n"
            "t=ctranslate2.Translator(folder,device='cpu',inter_threads=workers,intra_threads=1)\n"
            "t.translate_batch(tokens[:8],beam_size=beam)\n"
            "w,c=time.perf_counter(),time.process_time()\n"
            "t.translate_batch(tokens,beam_size=beam,max_batch_size=batch,batch_type='tokens',"
            "max_input_length=0)\n"
            "print(time.perf_counter()-w,time.process_time()-c)\n"
        )
        given = json.dumps([self.folder, self.tokens, self.beam_size, workers, batch_tokens])
        output = subprocess.run(
            [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True
        ).stdout
        return Measured(*map(float, output.split()))

    def best_setting(self) -> tuple[int, int]:
        """Try the settings that can be fastest."""
        cores = len(os.sched_getaffinity(0))
        settings = [(cores, size) for size in (256, 512, 1024, 2048)]
        return min(settings, key=lambda setting: self.measure(*setting).wall)


class Server:
    """A server with the LibreTranslate API that is already running."""

    def __init__(self, url: str, pid: int | None) -> None:
        address = urlsplit(url)
        self.host, self.port = str(address.hostname), int(address.port or 80)
        self.pid = pid

    def processes(self) -> list[psutil.Process]:
        """Return the process and its children; none if the process is not known."""
        if self.pid is None:
            return []
        main = psutil.Process(self.pid)
        return [main, *main.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """Sum the CPU seconds of the server and its engines."""
        times = [process.cpu_times() for process in self.processes()]
        return sum(one.user + one.system for one in times)

    def resident_bytes(self) -> int:
        """Return the memory of the server and its engines."""
        return sum(process.memory_info().rss for process in self.processes())


class OurServer(Server):
    """`dragoman serve` in a process."""

    def __init__(self, run: str, options: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", "serve", run, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "http://" in line:
                super().__init__(line[line.index("http://") :].split()[0], self.process.pid)
                break
        else:
            raise SystemExit("the server did not start")

    def stop(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait(30)


class Client:
    """A connection that sends requests of the LibreTranslate API."""

    def __init__(self, server: Server, languages: tuple[str, str]) -> None:
        self.server = server
        self.source, self.target = languages
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def translate(self, texts: Sequence[str]) -> tuple[int, float]:
        """Send texts; return the status and the seconds until the answer."""
        body = json.dumps(
            {
                "q": list(texts) if len(texts) > 1 else texts[0],
                "source": self.source,
                "target": self.target,
            }
        ).encode()
        start = time.perf_counter()
        if self.streams is None:
            self.streams = await asyncio.open_connection(self.server.host, self.server.port)
        reader, writer = self.streams
        writer.write(
            b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        await reader.readexactly(length)
        return status, time.perf_counter() - start

    def close(self) -> None:
        """Close the connection."""
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


def requests_of(sentences: Sequence[str], texts: int) -> Iterator[Sequence[str]]:
    """Group the sentences into requests."""
    for start in range(0, len(sentences), texts):
        yield sentences[start : start + texts]


async def closed_loop(
    server: Server, languages: tuple[str, str], requests: list[Sequence[str]], clients: int
) -> Measured:
    """Send all requests with a number of clients; each waits for its answer."""
    waiting = iter(requests)

    async def client() -> None:
        one = Client(server, languages)
        for texts in waiting:
            status, _ = await one.translate(texts)
            assert status == 200, status
        one.close()

    start, cpu = time.perf_counter(), server.cpu_seconds()
    await asyncio.gather(*(client() for _ in range(clients)))
    return Measured(time.perf_counter() - start, server.cpu_seconds() - cpu)


async def open_loop(
    server: Server,
    languages: tuple[str, str],
    sentences: Sequence[str],
    rate: float,
    seconds: float,
) -> list[tuple[int, float]]:
    """Send single sentences at fixed times, whatever the server does."""
    results: list[tuple[int, float]] = []
    pool: list[Client] = []

    async def send(text: str) -> None:
        one = pool.pop() if pool else Client(server, languages)
        try:
            results.append(await one.translate([text]))
            pool.append(one)
        except (OSError, asyncio.IncompleteReadError):
            results.append((0, 0.0))

    start = time.perf_counter()
    tasks = []
    for number in range(round(rate * seconds)):
        pause = start + number / rate - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        tasks.append(asyncio.create_task(send(sentences[number % len(sentences)])))
    await asyncio.gather(*tasks)
    return results


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile; 0 for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def overload(
    server: Server, languages: tuple[str, str], sentences: Sequence[str], capacity: float
) -> dict[str, float]:
    """Send ten times the capacity for some seconds."""
    memory = server.resident_bytes()
    start = time.perf_counter()
    results = await open_loop(server, languages, sentences, 10 * capacity, seconds=8)
    seconds = time.perf_counter() - start
    accepted = [taken for status, taken in results if status == 200]
    refused = [taken for status, taken in results if status == 529]
    await asyncio.sleep(1)
    after = await Client(server, languages).translate([sentences[0]])
    return {
        "sent": len(results),
        "answered": len(accepted),
        "refused": len(refused),
        "other": len(results) - len(accepted) - len(refused),
        "goodput": len(accepted) / seconds / capacity,
        "longest_seconds": max(accepted, default=0.0),
        "refused_p99_ms": 1000 * percentile(refused, 0.99),
        "growth_mb": (server.resident_bytes() - memory) / 1e6,
        "after_seconds": after[1],
    }


async def mixed(
    server: Server, languages: tuple[str, str], sentences: Sequence[str]
) -> dict[str, float]:
    """Measure interactive requests alone, and beside a client that sends bulk all the time."""

    async def interactive(count: int) -> list[float]:
        one = Client(server, languages)
        times = []
        for number in range(count):
            times.append((await one.translate([sentences[number % len(sentences)]]))[1])
            await asyncio.sleep(random.expovariate(20))
        one.close()
        return times

    async def bulk() -> None:
        one = Client(server, languages)
        while True:
            await one.translate(sentences[:200])

    alone = await interactive(100)
    tasks = [asyncio.create_task(bulk()) for _ in range(2)]
    await asyncio.sleep(1)
    beside = await interactive(200)
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return {
        "alone_p50_ms": 1000 * percentile(alone, 0.5),
        "alone_p99_ms": 1000 * percentile(alone, 0.99),
        "beside_bulk_p50_ms": 1000 * percentile(beside, 0.5),
        "beside_bulk_p99_ms": 1000 * percentile(beside, 0.99),
    }


async def idle(
    server: Server, languages: tuple[str, str], sentences: Sequence[str], run: str
) -> dict[str, float]:
    """Measure one sentence at a time; the bare engine and the server alternate."""
    import ctranslate2

    bare = Bare(run, sentences)
    engine = ctranslate2.Translator(bare.folder, device="cpu", inter_threads=1, intra_threads=1)
    one = Client(server, languages)
    theirs, ours = [], []
    for number in range(min(100, len(sentences))):
        start = time.perf_counter()
        engine.translate_batch([bare.tokens[number]], beam_size=bare.beam_size)
        theirs.append(time.perf_counter() - start)
        ours.append((await one.translate([sentences[number]]))[1])
    limit = [1.3 * seconds + 0.003 for seconds in theirs]
    return {
        "bare_ms": 1000 * statistics.median(theirs),
        "server_ms": 1000 * statistics.median(ours),
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "difference_ms": 1000 * statistics.median(a - b for a, b in zip(ours, theirs, strict=True)),
        "within_limit": sum(a <= b for a, b in zip(ours, limit, strict=True)) / len(ours),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--languages", default="en-fr")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--texts", type=int, default=1)
    parser.add_argument("--count", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--client-core", type=int, help="core of the clients, as for taskset")
    parser.add_argument("--beside", metavar="URL", help="another LibreTranslate server")
    parser.add_argument("--beside-pid", type=int, metavar="PID", help="process of that server")
    for name in ("idle", "overload", "mixed", "no-compare"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    source, _, target = options.languages.partition("-")
    languages = (source, target)
    lines = options.sentences.read_text(encoding="utf-8").split("\n")
    sentences = [line for line in lines if line.strip()][: options.count]
    report: dict[str, object] = {}

    def add(part: Mapping[str, object]) -> None:
        report.update(part)
        for name, value in part.items():
            print(f"{name}: {value}", flush=True)

    server = OurServer(options.run)
    try:
        requests = list(requests_of(sentences, options.texts))
        asyncio.run(closed_loop(server, languages, requests[:32], options.clients))
        if options.beside or not options.no_compare:
            add(compare(options, server, languages, requests, sentences))
        if options.idle:
            add({"idle": asyncio.run(idle(server, languages, sentences, options.run))})
        if options.mixed:
            add({"mixed": asyncio.run(mixed(server, languages, sentences))})
        if options.overload:
            base = asyncio.run(closed_loop(server, languages, requests, options.clients))
            capacity = len(sentences) / base.wall
            add({"capacity_per_second": capacity})
            add({"overload": asyncio.run(overload(server, languages, sentences, capacity))})
    finally:
        server.stop()
    print(json.dumps(report))


def compare(
    options: argparse.Namespace,
    server: Server,
    languages: tuple[str, str],
    requests: list[Sequence[str]],
    sentences: Sequence[str],
) -> dict[str, object]:
    """Compare the server with the bare engine, with the server beside it, or with both."""

    def load(one: Server, part: list[Sequence[str]]) -> Measured:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores if options.client_core is None else {options.client_core})
        try:
            return asyncio.run(closed_loop(one, languages, part, options.clients))
        finally:
            os.sched_setaffinity(0, cores)

    report: dict[str, object] = {"sentences": len(sentences)}
    measures: dict[str, Callable[[], Measured]] = {}
    if not options.no_compare:
        bare = Bare(options.run, sentences)
        setting = bare.best_setting()
        report["best_setting"] = setting
        measures["bare"] = lambda: bare.measure(*setting)
    if options.beside:
        beside = Server(options.beside, options.beside_pid)
        load(beside, requests[:32])  # It may load its model with the first request.
        measures["beside"] = lambda: load(beside, requests)
    measures["server"] = lambda: load(server, requests)
    runs: dict[str, list[Measured]] = {name: [] for name in measures}
    for _ in range(options.repeats):
        for name, measure in measures.items():
            runs[name].append(measure())
    wall = {name: statistics.median(one.wall for one in runs[name]) for name in runs}
    cpu = {name: statistics.median(one.cpu for one in runs[name]) for name in runs}
    report |= {f"{name}_seconds": [round(one.wall, 2) for one in runs[name]] for name in runs}
    for name, prefix in (("bare", ""), ("beside", "beside_")):
        if name in runs:
            report[f"{prefix}wall"] = wall[name] / wall["server"]
            if cpu[name]:  # 0: the process is not known.
                report[f"{prefix}cpu"] = cpu["server"] / cpu[name]
    return report


if __name__ == "__main__":
    main()
