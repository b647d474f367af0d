"""A Ray cluster of several hosts without a shared disk, and an S3 server, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dragoman
from support.netlab import Lab
from support.s3_server import BUCKET, client_variables

STORE, PORT = "store", 8333
TESTS = Path(__file__).parents[1]
_UPLOAD = """
import sys
from pathlib import Path
from dragoman.storage.files import link_or_copy
from dragoman.storage.mirror import local_path, names
for name in names(Path(sys.argv[1])):
    link_or_copy(Path(sys.argv[1]) / name, local_path(sys.argv[2]) / name)
"""
_PUBLISHED = """
import json, sys
from dragoman.storage.mirror import local_path
from support.small_corpus import published
print(json.dumps(published(local_path(sys.argv[1]))))
"""


@dataclass(frozen=True)
class Cluster:
    """The hosts; the driver runs on the first."""

    lab: Lab
    hosts: Sequence[str]
    logs: Path

    @property
    def variables(self) -> dict[str, str]:
        """The environment of all processes on the hosts."""
        source = Path(dragoman.__file__).parents[1]
        return client_variables(f"http://{self.lab.address(STORE)}:{PORT}") | {
            "AWS_ALLOW_HTTP": "true",
            "DAFT_PROGRESS_BAR": "0",
            "HF_HUB_OFFLINE": "1",
            "HOME": "/root",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{source}:{TESTS}",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray gives its workers a low priority; on a busy machine they would not start in time.
            "RAY_worker_niceness": "0",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "3000",
            "RAY_health_check_failure_threshold": "3",
        }

    @property
    def address(self) -> str:
        """The address of the Ray cluster."""
        return f"{self.lab.address(self.hosts[0])}:6379"

    def python(self, *words: str) -> str:
        """Run Python on the first host, and return its output."""
        command = [sys.executable, "-W", "ignore", *words]
        done = self.lab.run(self.hosts[0], command, self.variables)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def upload(self, folder: Path, url: str) -> None:
        """Copy the files of a local folder into the store."""
        self.python("-c", _UPLOAD, str(folder), url)

    def published(self, url: str) -> dict[str, str]:
        """Return the published files of a prepared folder, with their hashes."""
        hashes: dict[str, str] = json.loads(self.python("-c", _PUBLISHED, url))
        return hashes

    def begin_prepare(self, url: str, script: Path, workers: int) -> Preparation:
        """Start the preparation of a recipe in the store."""
        return self.begin(script, f"{url}/recipe.yaml", str(workers), self.address)

    def begin(self, script: Path, *words: str) -> Preparation:
        """Start a script on the first host; it writes its progress as JSON."""
        log = self.logs / f"{script.stem}-{time.monotonic_ns()}.log"
        command = [sys.executable, "-W", "ignore", str(script), *words]
        with log.open("wb") as output:
            process = self.lab.begin(self.hosts[0], command, self.variables, output)
        return Preparation(process, log)

    def start_ray(self, host: str) -> None:
        """Start Ray on a host and wait; a busy machine may need a second attempt."""
        head = ["--head", "--port=6379", "--include-dashboard=false"]
        role = head if host == self.hosts[0] else [f"--address={self.address}"]
        options = ["--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats"]
        address = f"--node-ip-address={self.lab.address(host)}"
        command = ["ray", "start", *role, address, *options]
        done = self.lab.run(host, command, self.variables)
        if done.returncode:
            self.lab.run(host, ["ray", "stop", "--force"], self.variables)
            done = self.lab.run(host, command, self.variables)
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]


@dataclass(frozen=True)
class Preparation:
    """A preparation or a translation that runs on the cluster."""

    process: subprocess.Popen[bytes]
    log: Path

    def progress(self) -> list[tuple[str, int, str]]:
        """Return the stage, the number of done tasks and the host of every report so far."""
        reports = []
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith('["progress"'):
                _, stage, done, *_, host = json.loads(line)
                reports.append((stage, done, host))
        return reports

    def wait_for(self, stage: str, done: int, timeout: float = 200) -> None:
        """Wait until some tasks of a stage are done."""
        deadline = time.monotonic() + timeout
        while not any(name == stage and count >= done for name, count, _ in self.progress()):
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, f"{stage} was not reached"
            time.sleep(0.1)

    def finish(self, timeout: float = 280) -> Counter[str]:
        """Wait for the end; return the number of tasks of each host."""
        code = self.process.wait(timeout)
        assert code == 0, self.log.read_text(errors="replace")[-3000:]
        return Counter(host for _, _, host in self.progress() if host)


@contextlib.contextmanager
def cluster(hosts: Sequence[str] = ("one", "two", "three")) -> Iterator[Cluster]:
    """Start the hosts, the store and Ray."""
    with tempfile.TemporaryDirectory() as logs, Lab([STORE, *hosts]) as lab:
        started = Cluster(lab, hosts, Path(logs))
        command = [sys.executable, "-m", "support.s3_server", "/srv/s3"]
        address = lab.address(STORE)
        server_log = Path(logs) / "store.log"
        with server_log.open("wb") as output:
            lab.begin(STORE, [*command, address, str(PORT)], started.variables, output)
        for host in hosts:
            started.start_ray(host)
        deadline = time.monotonic() + 60
        while not server_log.read_text().startswith(address) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield started


def url_of(name: str) -> str:
    """Return the URL of a folder in the store of the cluster."""
    return f"s3://{BUCKET}/{name}"
