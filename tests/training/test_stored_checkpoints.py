"""Checkpoints in a store: who uploads what. `test_stored_runs.py` trains whole runs."""

from types import SimpleNamespace

import pytest
import torch

from dragoman.data.manifest import Manifest
from dragoman.recipe.files import load_recipe
from dragoman.storage.files import atomic_folder
from dragoman.storage.mirror import local_path, names, read_text
from dragoman.storage.remote import StorageError, open_store, parse_url
from dragoman.training.parallel import World
from dragoman.training.run_folder import Run, RunFacts
from dragoman.training.run_store import RunStore
from dragoman.training.stored_checkpoints import StoredCheckpoints


def test_only_the_first_rank_of_a_machine_uploads_its_files(tmp_path):
    url = parse_url(f"file://{tmp_path}/store/run")
    assert url is not None
    written = tmp_path / "run/checkpoints/step-00000005"  # By the first rank.
    written.mkdir(parents=True)
    (written / "manifest.json").write_text("{}")
    second = World(1, 1, torch.device("cpu"), local_rank=1)
    with StoredCheckpoints(url, tmp_path / "run", (), second, None) as checkpoints:
        checkpoints.save(5, {}, {}, {})
        assert checkpoints.steps() == [5]
    assert not list(open_store(url.bucket).list(url.key))


@pytest.fixture
def failing_once(tmp_path, monkeypatch):
    """Checkpoints in a store whose first upload fails."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    failures = [StorageError("the store is away")]
    publish = StoredCheckpoints._publish

    def fail_once(self, step, manifest, journals):
        if failures:
            raise failures.pop()
        publish(self, step, manifest, journals)

    monkeypatch.setattr(StoredCheckpoints, "_publish", fail_once)
    url = parse_url(f"file://{tmp_path}/store/run")
    lease = SimpleNamespace(is_lost=False)
    main = World(0, 1, torch.device("cpu"))
    with StoredCheckpoints(url, tmp_path / "run", (), main, lease) as checkpoints:
        checkpoints.save(1, {}, {}, {}, wait=False)
        yield checkpoints


def test_a_failed_upload_is_reported_by_the_next_save(failing_once):
    with pytest.raises(StorageError, match="the store is away"):
        failing_once.save(2, {}, {}, {}, wait=False)
    failing_once.save(3, {}, {}, {}, wait=True)
    assert failing_once.steps() == [2, 3]


def test_the_last_checkpoint_is_saved_after_a_failed_upload(failing_once):
    """What counts at the end is this checkpoint, not the one before."""
    failing_once.save(2, {}, {}, {}, wait=True)
    assert failing_once.steps() == [2]
    assert failing_once.newest().folder.name == "step-00000002"


def test_the_model_of_a_run_replaces_an_export_in_the_store(tmp_path, monkeypatch):
    """`dragoman export` writes a manifest, which would hide the files of a later training."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    url = parse_url(f"file://{tmp_path}/store/run")
    assert url is not None
    export = local_path(str(url)) / "ctranslate2"
    with atomic_folder(export) as temporary:
        (temporary / "model.bin").write_text("old")
        (temporary / "old.json").write_text("old")
    new = tmp_path / "run/ctranslate2"
    new.mkdir(parents=True)
    (new / "model.bin").write_text("new")
    (tmp_path / "run/format.json").write_text("{}")
    RunStore(url, tmp_path / "run", None).upload_model()
    assert names(export) == ["model.bin"]
    assert read_text(export / "model.bin") == "new"


def test_every_machine_forgets_the_facts_of_a_run_without_a_checkpoint(tmp_path):
    """Otherwise only the main rank counts the micro-batches, and waits for the others."""
    store = SimpleNamespace(checkpoints=SimpleNamespace(steps=list))
    second = World(1, 1, torch.device("cpu"), local_rank=0)  # The first rank of its machine.
    prepared = SimpleNamespace(folder=tmp_path, manifest=Manifest(train=()))
    run = Run(tmp_path, tmp_path, load_recipe("tiny"), prepared, second, store)
    old = RunFacts(corpus_sha256=run.corpus_sha256, micro_batches=4)
    (tmp_path / "run.json").write_text(old.model_dump_json(exclude_none=True))
    run.begin()
    assert run.read_facts() == RunFacts(corpus_sha256=run.corpus_sha256)
