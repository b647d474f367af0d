"""Checkpoints in a store: who uploads what. `test_stored_runs.py` trains whole runs."""

import torch

from dragoman.storage.remote import open_store, parse_url
from dragoman.training.parallel import World
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
        checkpoints.finish()
        assert checkpoints.steps() == [5]
    assert not list(open_store(url.bucket).list(url.key))
