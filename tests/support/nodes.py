"""Training with torchrun on several hosts without a shared disk, and an S3 server, for tests.

    with nodes(["one", "two"]) as lab:
        lab.upload(recipe, "run-1")
        lab.begin("one", "run-1"), lab.begin("two", "run-1")
        lab.wait_for_step("run-1", 20)
        lab.finish("run-1")
        lab.outcome("run-1", reader="three")

The first host serves the rendezvous of torchrun.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dragoman
from support.netlab import Lab
from support.s3_server import BUCKET, client_variables
from support.trainees import journal

STORE, PORT = "store", 8333
TESTS = Path(__file__).parents[1]
_UPLOAD = """
import sys
from pathlib import Path
from dragoman.storage.files import link_or_copy
from dragoman.storage.mirror import local_path
folder = Path(sys.argv[1])
for file in filter(Path.is_file, folder.rglob("*")):
    link_or_copy(file, local_path(sys.argv[2]) / file.relative_to(folder))
"""
_READ = """
import json, sys
from dragoman.artifact import read_artifact
from dragoman.storage.mirror import fetch, local_path
from dragoman.storage.remote import parse_url
from dragoman.storage.working_folder import complete_steps
from dragoman.training.checkpoint import find_damage
from support.trainees import outcome
run = fetch(local_path(sys.argv[1]))
read_artifact(run)
steps = complete_steps(parse_url(sys.argv[1] + "/checkpoints"), "step")
damages = [find_damage(run / f"checkpoints/step-{step:08}") for step in steps]
assert steps and not any(damages), damages
print(json.dumps(outcome(run)))
"""


@dataclass
class Nodes:
    """The hosts, and the torchrun processes on them."""

    lab: Lab
    hosts: Sequence[str]
    logs: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By host."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment of all processes on the hosts."""
        source = Path(dragoman.__file__).parents[1]
        return client_variables(f"http://{self.lab.address(STORE)}:{PORT}") | {
            "AWS_ALLOW_HTTP": "true",
            "DRAGOMAN_CACHE": "/cache",
            "GLOO_SOCKET_IFNAME": "eth0",
            "HOME": "/root",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{source}:{TESTS}",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }

    def upload(self, recipe: Path, name: str) -> None:
        """Copy the folder of a recipe into the store."""
        self._python(self.hosts[0], _UPLOAD, str(recipe.parent), f"s3://{BUCKET}/{name}")

    def begin(
        self, host: str, name: str, *settings: str, ranks: int = 1, nnodes: str = "2", job: str = ""
    ) -> None:
        """Start torchrun on a host."""
        server = host if nnodes == "1" else self.hosts[0]
        words = [
            sys.executable, "-m", "torch.distributed.run", f"--nnodes={nnodes}",
            f"--nproc-per-node={ranks}", "--max-restarts=20", "--rdzv-backend=c10d",
            f"--rdzv-endpoint={self.lab.address(server)}:29400", f"--rdzv-id={job or name}",
            "--rdzv-conf=last_call_timeout=5,join_timeout=300,read_timeout=30",
            f"--local-addr={self.lab.address(host)}",
            "-m", "dragoman", "train", f"s3://{BUCKET}/{name}/recipe.yaml", *settings,
        ]  # fmt: skip
        with self.log(host, name).open("ab") as output:
            self.running[host] = self.lab.begin(host, words, self.variables, output)

    def log(self, host: str, name: str) -> Path:
        """The output of torchrun on a host."""
        return self.logs / f"{name}-{host}.log"

    def step(self, name: str) -> int:
        """Return the last step in a journal on one of the hosts."""
        steps = [0]
        for host in self.running:
            process = self.lab.process(host)
            if process is not None:
                pattern = f"cache/*.mirror/runs/{name}/run/journal.jsonl"
                for file in Path(f"/proc/{process}/root").glob(pattern):
                    steps += [entry["step"] for entry in journal(file.parent)]
        return max(steps)

    def wait_for_step(self, name: str, step: int, timeout: float = 240) -> None:
        """Wait until a step is in the journal."""
        deadline = time.monotonic() + timeout
        while self.step(name) < step:
            assert time.monotonic() < deadline, self.text(name)
            assert any(process.poll() is None for process in self.running.values()), self.text(name)
            time.sleep(0.1)

    def kill(self, host: str) -> None:
        """Switch a host off, with all that it has on its disk."""
        self.lab.kill(host)
        self.running.pop(host).wait()

    def signal(self, host: str) -> float:
        """Send SIGTERM to torchrun on a host; return how many seconds it took to end."""
        process = self.running.pop(host)
        began = time.monotonic()
        # The command runs as a child of nsenter, which does not pass signals on.
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGTERM)
        process.wait(120)
        return time.monotonic() - began

    def finish(self, name: str, timeout: float = 400) -> None:
        """Wait for the end of all torchrun processes."""
        deadline = time.monotonic() + timeout
        for host in list(self.running):
            code = self.running.pop(host).wait(max(1.0, deadline - time.monotonic()))
            assert code == 0, self.text(name)

    def outcome(self, name: str, reader: str) -> tuple[list[dict[str, Any]], str]:
        """Return the journal and the hash of the model, as another host reads them."""
        entries, digest = json.loads(self._python(reader, _READ, f"s3://{BUCKET}/{name}/run"))
        return entries, digest

    def text(self, name: str) -> str:
        """Return the end of all outputs."""
        logs = sorted(self.logs.glob(f"{name}-*.log"))
        return "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-4000:]}" for log in logs)

    def _python(self, host: str, code: str, *words: str) -> str:
        command = [sys.executable, "-W", "ignore", "-c", code, *words]
        done = self.lab.run(host, command, self.variables)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@contextlib.contextmanager
def nodes(hosts: Sequence[str] = ("one", "two", "three")) -> Iterator[Nodes]:
    """Start the hosts and the store."""
    with tempfile.TemporaryDirectory() as logs, Lab([STORE, *hosts]) as lab:
        started = Nodes(lab, hosts, Path(logs))
        address, server_log = lab.address(STORE), Path(logs) / "store.log"
        command = [sys.executable, "-m", "support.s3_server", "/srv/s3", address, str(PORT)]
        with server_log.open("wb") as output:
            lab.begin(STORE, command, started.variables, output)
        deadline = time.monotonic() + 90
        while not server_log.read_text().startswith(address):
            assert time.monotonic() < deadline, server_log.read_text()
            time.sleep(0.1)
        yield started
