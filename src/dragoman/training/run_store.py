"""A run folder in a store, and the working folder for it on this machine.

    recipe.yaml, run.json, tokenizer/    uploaded when the run starts
    checkpoints/, journal.jsonl, samples.jsonl    uploaded by `stored_checkpoints.py`
    the model and its card               uploaded at the end, `format.json` last

The main rank holds a lease of the folder, as a file lock holds a local one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.artifact import CHECKPOINTS
from dragoman.errors import ArtifactError
from dragoman.interop.folder import FOLDER as EXPORT
from dragoman.storage.files import remove
from dragoman.storage.lease import EXPIRY_SECONDS, Lease, LeaseHeldError, leased
from dragoman.storage.lock import FolderLockedError, lock_folder
from dragoman.storage.mirror import exists, local_path, path_text, working_folder
from dragoman.storage.remote import RemoteURL
from dragoman.storage.working_folder import fetch_files, upload
from dragoman.training.journal import JOURNAL, SAMPLES
from dragoman.training.parallel import World
from dragoman.training.stored_checkpoints import StoredCheckpoints

FACTS = "run.json"
_RECIPE, _FORMAT = "recipe.yaml", "format.json"


@dataclass(frozen=True, slots=True)
class RunStore:
    """The store's side of a run that this process has opened."""

    url: RemoteURL
    folder: Path
    """The working folder on this machine."""
    checkpoints: StoredCheckpoints

    def upload_beginning(self) -> None:
        """Upload what is known before training. A model with another recipe is none any more."""
        tokenizer = (path for path in (self.folder / "tokenizer").rglob("*") if path.is_file())
        names = [path.relative_to(self.folder).as_posix() for path in tokenizer]
        upload(self.url, self.folder, [_FORMAT] * self._has_no_model + [_RECIPE, *names])

    def upload_facts(self) -> None:
        """Upload `run.json`."""
        upload(self.url, self.folder, [FACTS])

    def upload_model(self) -> None:
        """Upload everything except the checkpoints; the model is visible after the last file."""
        files = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        names = {
            path.as_posix()
            for path in files
            if path.parts[0] != CHECKPOINTS and not path.name.startswith(".")
        }
        export = local_path(str(self.url)) / EXPORT
        if exists(export):  # Written by `dragoman export`: its manifest would hide the new files.
            remove(export)
        upload(self.url, self.folder, [*sorted(names - {_FORMAT}), _FORMAT])

    @property
    def _has_no_model(self) -> bool:
        return not (self.folder / _FORMAT).exists()


@contextlib.contextmanager
def open_store_folder(
    url: RemoteURL, world: World, report: Callable[[str], None]
) -> Iterator[RunStore]:
    """Lock the run in the store, and fetch its small files to every machine."""
    folder = working_folder(url)
    with contextlib.ExitStack() as stack:
        if world.is_node_main:
            stack.enter_context(_locked(folder))
        lease = stack.enter_context(_leased(url, report)) if world.is_main else None
        if world.is_node_main:
            fetch_files(url, folder, [_RECIPE, FACTS, JOURNAL, SAMPLES, _FORMAT])
        world.barrier(is_slow=True)
        checkpoints = StoredCheckpoints(url, folder, (JOURNAL, SAMPLES), world, lease)
        yield RunStore(url, folder, stack.enter_context(checkpoints))


@contextlib.contextmanager
def _leased(url: RemoteURL, report: Callable[[str], None]) -> Iterator[Lease]:
    def wait(holder: str) -> None:
        report(
            f"{url} was last trained by {holder}; waiting for up to {EXPIRY_SECONDS:.0f} s, to see "
            "whether it is alive"
        )

    job = os.environ.get("TORCHELASTIC_RUN_ID", "")
    try:
        stack = contextlib.ExitStack()
        # torchrun names a job "none" if nobody has named it.
        lease = stack.enter_context(leased(url, "" if job == "none" else job, wait))
    except LeaseHeldError as error:
        raise ArtifactError(
            f"{url} is being trained by {error}; wait for it, stop it, or choose another "
            "training.folder"
        ) from None
    with stack:
        yield lease


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        stack = contextlib.ExitStack()
        stack.enter_context(lock_folder(folder))
    except FolderLockedError as error:
        raise ArtifactError(
            f"{path_text(folder)} is being trained on this machine by process {error.pid}; wait "
            "for it, stop it, or choose another training.folder"
        ) from None
    with stack:
        yield
