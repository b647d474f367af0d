"""Checkpoints of a run whose folder is in a store.

The machines of such a run share no disk. Each writes its files of a checkpoint to a local folder,
as in `checkpoint.py`. Training then continues, and a thread uploads the files. When all files of
all machines are in the store, the main rank publishes the checkpoint by one put of its manifest
(`storage/folder_manifest.py`). A reader sees a complete checkpoint or none.

An upload ends before the next save begins, and before the process ends. Checkpoints that are no
longer needed are removed after the newest one is published.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from safetensors import SafetensorError
from safetensors.torch import save_file

from dragoman.artifact import CHECKPOINTS
from dragoman.errors import ArtifactError, DragomanError
from dragoman.shapes import Tensor
from dragoman.storage.files import atomic_folder, remove, sha256
from dragoman.storage.folder_manifest import FileEntry, FolderManifest
from dragoman.storage.lease import Lease
from dragoman.storage.mirror import local_path
from dragoman.storage.remote import RemoteURL, StorageError, open_store
from dragoman.storage.working_folder import (
    complete_steps,
    fetch_folder,
    is_uploaded,
    publish,
    upload_part,
)
from dragoman.training.checkpoint import (
    MANIFEST,
    MODEL,
    OPTIMIZER,
    STATE,
    Checkpoints,
    SavedCheckpoint,
    find_damage,
    is_sharded,
    manifest_text,
    remove_folder,
    write_json,
    write_shards,
)
from dragoman.training.parallel import World

_PEER_SECONDS = 600.0
"""How long the main rank waits until other machines have uploaded their files."""
_POLL_SECONDS = 0.5


class StoredCheckpoints(Checkpoints):
    """The checkpoints of one run in a store; used in a `with` block."""

    def __init__(
        self,
        url: RemoteURL,
        folder: Path,
        journals: Sequence[str],
        world: World,
        lease: Lease | None,
    ) -> None:
        super().__init__(folder / CHECKPOINTS, world)
        self._run_url, self._run_folder, self._journals = url, folder, journals
        self._lease = lease
        self._steps: list[int] = []
        """The complete checkpoints, and the one that is being uploaded; equal on all ranks."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="upload")
        self._upload: tuple[int, Future[None]] | None = None

    def __enter__(self) -> Self:
        """Find the checkpoints in the store, and remove what a crash left on this machine."""
        stored = complete_steps(self._url(), "step") if self.world.is_main else []
        self._steps = json.loads(self.world.gather_text(json.dumps(stored))[0])
        if self.world.is_node_main:
            self._remove_partials()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown()

    def save(
        self,
        step: int,
        model: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        state: Mapping[str, Any],
        *,
        wait: bool = True,
    ) -> Path:
        """Write the files of this machine, and begin to upload them; all ranks call this.

        With `wait`, return when the checkpoint is complete. Without it, an error is raised at the
        end if the upload before has failed; this one continues.
        """
        earlier = self._end_upload()
        path, temporary = self._path(step), self._hidden(step, "tmp")
        self._remove_local(path, temporary)
        self.world.barrier(is_slow=True)
        if is_sharded(model):
            write_shards(temporary, {**model, **optimizer})
        failure: Exception | None = None
        files: dict[str, FileEntry] = {}
        try:
            if self.world.is_main:
                _write_main_files(temporary, model, optimizer, state)
            if self.world.is_node_main:
                files = _entries(temporary)
        except (OSError, SafetensorError) as error:
            failure = error  # The other ranks wait in the next line.
        manifest, text = self._make_manifest(files)
        try:
            if files:
                with atomic_folder(path, temporary):
                    if self.world.is_main:
                        (temporary / MANIFEST).write_text(text, encoding="utf-8")
        except OSError as error:
            failure = error
        if self.world.all_reduce_sum([float(failure is not None)], is_slow=True)[0]:
            self._remove_local(path, temporary)
            raise failure or OSError("another rank could not save its part")
        self._steps = sorted({*self._steps, step})
        self._upload = step, self._pool.submit(self._publish, step, manifest, self._read_journals())
        problem = self._end_upload() if wait else earlier
        if problem is not None:
            raise problem
        return path

    def newest(self) -> SavedCheckpoint | None:
        """Fetch the newest intact checkpoint to every machine."""
        skipped: list[str] = []
        for step in reversed(self._steps):
            damage = self._find_damage(step)
            if not self.world.all_reduce_sum([float(bool(damage))], is_slow=True)[0]:
                path = self._path(step)
                state = json.loads((path / STATE).read_text(encoding="utf-8"))
                return SavedCheckpoint(path, state, tuple(skipped))
            reason = damage or "another machine could not read it"
            skipped.append(f"{self._path(step).name} is damaged: {reason}")
        if skipped:
            raise ArtifactError(
                f"no checkpoint in {self._url()} can be used:\n  "
                + "\n  ".join(skipped)
                + "\nRemove the run's folder to start again."
            )
        return None

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint."""
        return list(self._steps)

    def keep_only(self, steps: set[int]) -> None:
        """Remove the other checkpoints: here now, in the store after the upload that is running."""
        removed = [step for step in self._steps if step not in steps]
        self._steps = [step for step in self._steps if step in steps]
        if self.world.is_node_main:
            for step in set(super().steps()) - steps:
                remove_folder(self._path(step).rename(self._hidden(step, "old")))
        if self.world.is_main and removed:
            upload = self._upload[1] if self._upload else None
            self._pool.submit(self._remove_stored, removed, upload)

    def _make_manifest(self, files: Mapping[str, FileEntry]) -> tuple[FolderManifest, str]:
        """Return the manifest of the files of all machines, and the text of `manifest.json`."""
        everywhere: dict[str, FileEntry] = {}
        for entries in self.world.gather_text(json.dumps(files)):
            everywhere |= {name: FileEntry(*entry) for name, entry in json.loads(entries).items()}
        text = manifest_text({name: entry.sha256 for name, entry in everywhere.items()})
        data = text.encode()
        own = FileEntry(len(data), hashlib.sha256(data).hexdigest())
        return FolderManifest.of(everywhere | {MANIFEST: own}), text

    def _remove_local(self, *folders: Path) -> None:
        if self.world.is_node_main:
            for folder in folders:
                remove_folder(folder)

    def _find_damage(self, step: int) -> str | None:
        """Fetch what this machine does not have of a checkpoint; say what is wrong with it."""
        if not self.world.is_node_main:
            return None
        path, damage = self._path(step), None
        for _ in range(2):  # Local files can be damaged too; then all are fetched again.
            try:
                fetch_folder(self._url(step), path)
            except FileNotFoundError as error:
                return str(error)
            damage = find_damage(path)
            if damage is None:
                return None
            remove_folder(path)
        return damage

    def _publish(self, step: int, manifest: FolderManifest, journals: Mapping[str, bytes]) -> None:
        """Upload the files of this machine. The main rank waits for the others and publishes."""
        if not self.world.is_node_main:
            return  # The first rank of the machine uploads the files of all its ranks.
        url = self._url(step)
        missing = upload_part(url, self._path(step), manifest)
        if self._lease is None:
            return
        end = time.monotonic() + _PEER_SECONDS
        while not is_uploaded(url, manifest, missing):
            if time.monotonic() > end:
                raise StorageError(
                    f"other machines did not upload their part of {url} in {_PEER_SECONDS:.0f} s"
                )
            time.sleep(_POLL_SECONDS)
        if self._lease.is_lost:
            raise ArtifactError(
                f"{self._run_url} was taken over by another run of the same command; this one ends"
            )
        # First the journals: they must have the entries of every checkpoint that can be resumed.
        for name, content in journals.items():
            open_store(url.bucket).put(f"{self._run_url.key}/{name}", content)
        publish(url, manifest)

    def _remove_stored(self, steps: list[int], upload: Future[None] | None) -> None:
        if upload is not None and upload.exception() is not None:
            return  # The checkpoint that replaces them is not in the store.
        for step in steps:
            remove(local_path(str(self._url(step))))

    def _end_upload(self) -> DragomanError | OSError | None:
        """Wait for the upload; return why it has failed on this machine or another one."""
        step, problem = -1, None
        if self._upload is not None:
            step, upload = self._upload
            problem = upload.exception()
            self._upload = None
        if isinstance(problem, ArtifactError):
            raise problem
        if self.world.all_reduce_sum([float(problem is not None)], is_slow=True)[0] == 0:
            return None
        self._steps = [other for other in self._steps if other != step]
        if problem is not None and not isinstance(problem, (DragomanError, OSError)):
            raise problem
        return problem or StorageError(f"another machine could not upload its part of step {step}")

    def _read_journals(self) -> dict[str, bytes]:
        paths = [self._run_folder / name for name in self._journals]
        return {path.name: path.read_bytes() for path in paths if path.exists()}

    def _url(self, step: int | None = None) -> RemoteURL:
        key = f"{self._run_url.key}/{CHECKPOINTS}"
        name = "" if step is None else f"/{self._path(step).name}"
        return RemoteURL(self._run_url.bucket, key + name)


def _write_main_files(
    folder: Path,
    model: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    state: Mapping[str, Any],
) -> None:
    """Write what one rank writes for all: the state, and tensors that are not sharded."""
    folder.mkdir(parents=True, exist_ok=True)
    if not is_sharded(model):
        save_file(dict(model), folder / MODEL)
        save_file(dict(optimizer), folder / OPTIMIZER)
    write_json(folder / STATE, state)


def _entries(folder: Path) -> dict[str, FileEntry]:
    """Return the sizes and hashes of the files in a folder, which need not exist."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return {file.name: FileEntry(file.stat().st_size, sha256(file)) for file in files}
