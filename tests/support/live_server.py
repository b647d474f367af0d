"""The real server with stub engines, in a process of its own on a free port.

`python -m support.live_server SETTINGS` is the process; it prints its address when it answers.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.ports import free_ports

STUB = "support.stub_worker"
ROOT = Path(__file__).parents[2]
START_SECONDS = 120
STOP_SECONDS = 90


@dataclass(frozen=True)
class Response:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    def json(self):
        """Return the body."""
        return json.loads(self.body)


class LiveServer:
    """A running server."""

    def __init__(self, process: subprocess.Popen, url: str, log: Path, metrics_port: int) -> None:
        self.process = process
        self.url = url
        self.log_path = log
        self.temporary = log.with_name("temporary")
        """Folder of the temporary files of the server."""
        self.metrics_port = metrics_port
        self.host, port = url.removeprefix("http://").rsplit(":", 1)
        self.port = int(port)

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def log(self) -> str:
        """Return what the server and its engines have written to standard error."""
        return self.log_path.read_text(encoding="utf-8")

    def request(self, method: str, path: str, body=None, headers=None) -> Response:
        """Send one request; a body that is not bytes is sent as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        return fetch(self.host, self.port, method, path, body, headers)

    def translate(self, text: str, **more) -> str:
        """Translate a text with the LibreTranslate API, which must answer."""
        values = {"q": text, "source": "en", "target": "de", **more}
        response = self.request("POST", "/translate", values)
        assert response.status == 200, response
        return response.json()["translatedText"]

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name and labels, as Prometheus reads them."""
        response = fetch(self.host, self.metrics_port, "GET", "/metrics")
        lines = response.body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def engines(self) -> list[int]:
        """Return the process ids of the engines."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(number) for number in path.read_text().split()]

    def reload(self) -> None:
        """Ask for a reload of all models."""
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> int:
        """Ask the server to end; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


def fetch(host, port, method, path, body=None, headers=None) -> Response:
    """Send one request on a connection of its own."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, names, answer.read())
    finally:
        connection.close()


@contextlib.contextmanager
def live_server(folder: Path, *runs: Path, processes=1, limits=None, worker=STUB, **settings):
    """Start a server, and stop it at the end; its log and its state are in `folder`.

    `settings` are fields of `ServerSettings`, `limits` those of `Limits`. `worker` is the module of
    the engines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metrics_port = free_ports(processes)[0]  # Each process has a port of its own.
    values = {
        "runs": [str(run) for run in runs],
        "state": str(folder / "state"),
        "metrics_port": metrics_port,
        **settings,
    }
    options = {
        "processes": processes,
        "limits": limits or {},
        "settings": values,
        "worker": worker,
    }
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
    environment["TMPDIR"] = str(folder / "temporary")
    (folder / "temporary").mkdir()
    log = folder / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.live_server", json.dumps(options)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
        )
    with process:
        assert process.stdout is not None
        try:
            with _watchdog(process, START_SECONDS):
                url = process.stdout.readline().decode().strip()
            assert url, f"the server did not start:\n{log.read_text(encoding='utf-8')}"
            yield LiveServer(process, url, log, metrics_port)
        finally:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
            process.kill()


@contextlib.contextmanager
def _watchdog(process: subprocess.Popen, seconds: float) -> Iterator[None]:
    """End a process that says nothing, so that reading its output ends."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def main() -> None:
    """Run the server, as `dragoman serve` does."""
    from dragoman.serving.interface import Limits, ServerSettings
    from dragoman.serving.logs import configure_logs
    from dragoman.serving.server import run_server

    options = json.loads(sys.argv[1])
    values = options["settings"]
    for name in ("allowed_origins", "trusted_proxies"):
        values[name] = tuple(values.get(name, ()))
    settings = ServerSettings(
        **values
        | {
            "runs": tuple(map(Path, values["runs"])),
            "state": Path(values["state"]),
            "port": values.get("port", 0),
            "limits": Limits(**options["limits"]),
        }
    )
    configure_logs()
    run_server(
        settings,
        lambda address, _: print(address, flush=True),
        processes=options["processes"],
        worker=options["worker"],
    )


if __name__ == "__main__":
    main()
