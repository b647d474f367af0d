"""Microsoft's emulator of Azure Blob Storage on loopback, for tests: `npm install -g azurite`.

It keeps its data in memory. Its usage statistics are switched off: nothing leaves this machine.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from support.ports import free_port

PROGRAM = "azurite-blob"
CONTAINER = "texts"
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and the key of every emulator; they are public."""


def is_installed() -> bool:
    """Return whether the emulator can be found."""
    return shutil.which(PROGRAM) is not None


@contextlib.contextmanager
def azure_server(folder: Path) -> Iterator[dict[str, str]]:
    """Start the emulator with one empty container; yield the environment of a client."""
    port = free_port()
    command = [PROGRAM, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    log = folder / "azurite.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *options], cwd=folder, stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        _create_container(process, address, log)
        yield {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": address,
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        }
    finally:
        process.kill()
        process.wait()


def _create_container(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    """Create the container as soon as the emulator answers; obstore has no call for it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
        resource = f"/{_ACCOUNT}/{_ACCOUNT}/{CONTAINER}\nrestype:container"
        text = "PUT" + 12 * "\n" + signed + resource
        digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
        signature = base64.b64encode(digest).decode()
        headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
        url = f"{address}/{_ACCOUNT}/{CONTAINER}?restype=container"
        request = urllib.request.Request(url, method="PUT", headers=headers)
        with contextlib.suppress(OSError):
            urllib.request.urlopen(request, timeout=20).read()
            return
        time.sleep(0.2)
    raise RuntimeError(f"the emulator did not start: {log.read_text(errors='replace')[-2000:]}")
