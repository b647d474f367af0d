"""Checkpoints that survive a crash at any moment.

A checkpoint is a folder `step-N`: tensors as safetensors, other values as `state.json`, and the
SHA-256 of every file in `manifest.json`. It is written under a temporary name, flushed to the disk,
and renamed. So it is complete, or it does not exist. Resuming uses the newest checkpoint whose
hashes are right, and reports damaged ones. Nothing is ever unpickled.

A rank that has all weights writes them itself. Ranks that have shards write them together through
torch.distributed.checkpoint, whose reader loads both kinds for any number of ranks.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.tensor import DTensor

from dragoman.errors import ArtifactError
from dragoman.shapes import Tensor
from dragoman.storage.files import atomic_folder, sha256, verify_hashes
from dragoman.storage.mirror import path_text
from dragoman.training.parallel import World

FORMAT = 1
MODEL = "model.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE, MANIFEST = "state.json", "manifest.json"
_NAME = re.compile(r"step-(\d+)")
_TEMPORARY, _REMOVED = "tmp", "old"


class SavedCheckpoint(NamedTuple):
    """The checkpoint to resume from, and why newer ones were skipped."""

    folder: Path
    state: dict[str, Any]
    skipped: tuple[str, ...]


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder = folder
        self.world = world

    def save(
        self,
        step: int,
        model: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        state: Mapping[str, Any],
        *,
        wait: bool = True,
    ) -> Path:
        """Write a checkpoint; all ranks call this and return when it is complete.

        `wait` matters in a store only (`stored_checkpoints.py`): without it, the upload continues
        after this returns.
        """
        path = self._path(step)
        # The same name on every rank, and not that of a checkpoint.
        temporary = self._hidden(step, _TEMPORARY)
        if self.world.is_main:
            remove_folder(path)  # A whole checkpoint of this step would have been resumed from.
            remove_folder(temporary)
        self.world.barrier()
        if is_sharded(model):
            write_shards(temporary, {**model, **optimizer})
        if self.world.is_main:
            with atomic_folder(path, temporary):
                if not is_sharded(model):
                    save_file(dict(model), temporary / MODEL)
                    save_file(dict(optimizer), temporary / OPTIMIZER)
                write_json(temporary / STATE, state)
                files = {file.name: sha256(file) for file in sorted(temporary.iterdir())}
                (temporary / MANIFEST).write_text(manifest_text(files), encoding="utf-8")
        return path

    def newest(self) -> SavedCheckpoint | None:
        """Find the newest intact checkpoint, and remove what a crash left incomplete."""
        chosen, skipped = -1, []
        if self.world.is_main:  # Only one rank hashes the files, and tells the others.
            self._remove_partials()
            for step in reversed(self.steps()):
                damage = self._find_damage(step)
                if damage is None:
                    chosen = step
                    break
                skipped.append(f"{self._path(step).name} is damaged: {damage}")
        shared = self.world.all_reduce_sum(
            [chosen, len(skipped)] if self.world.is_main else [0, 0], is_slow=True
        )
        chosen, damaged = int(shared[0]), int(shared[1])
        if chosen >= 0:
            path = self._path(chosen)
            state = json.loads((path / STATE).read_text(encoding="utf-8"))
            return SavedCheckpoint(path, state, tuple(skipped))
        if damaged:
            raise ArtifactError(
                f"no checkpoint in {str(self.folder)!r} can be used:\n  "
                + "\n  ".join(skipped)
                + "\nRemove the run's folder to start again."
            )
        return None

    def check(self, steps: Sequence[int]) -> None:
        """Raise an error if one of these checkpoints is damaged; all ranks call this."""
        damages = ((self._path(step), self._find_damage(step)) for step in steps)
        damaged = [f"{path_text(path)} is damaged: {damage}" for path, damage in damages if damage]
        if self.world.all_reduce_sum([len(damaged)], is_slow=True)[0]:
            raise ArtifactError(
                "the model needs checkpoints that cannot be used:\n  "
                + "\n  ".join(damaged)
                + "\nRemove them and run the same command again, to use the others."
            )

    def load(self, source: Path | int, tensors: Mapping[str, Tensor]) -> None:
        """Read a folder, or the checkpoint of a step, into these tensors (whole or sharded)."""
        folder = self._path(source) if isinstance(source, int) else source
        with warnings.catch_warnings():
            # One rank without torch.distributed is normal.
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            state_dict_loader.load(
                dict(tensors),
                storage_reader=HuggingFaceStorageReader(str(folder)),
                no_dist=not dist.is_initialized(),
            )

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint; symbolic links do not count."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(path.name) for path in self.folder.iterdir() if _is_own(path))
        return sorted(int(match[1]) for match in names if match)

    def keep_only(self, steps: set[int]) -> None:
        """Remove the other checkpoints; each disappears in one rename. All ranks call this."""
        if self.world.is_main:
            for step in set(self.steps()) - steps:
                remove_folder(self._path(step).rename(self._hidden(step, _REMOVED)))

    def _find_damage(self, step: int) -> str | None:
        """Describe what is wrong with a checkpoint, on the ranks that read its hashes."""
        return find_damage(self._path(step)) if self.world.is_main else None

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def _hidden(self, step: int, suffix: str) -> Path:
        return self.folder / f".{self._path(step).name}.{suffix}"

    def _remove_partials(self) -> None:
        for suffix in (_TEMPORARY, _REMOVED):
            for path in self.folder.glob(f".step-*.{suffix}"):
                remove_folder(path)


def _is_own(path: Path) -> bool:
    """Whether a path is inside the run: a link may lead anywhere."""
    return not path.is_symlink()


def remove_folder(path: Path) -> None:
    """Remove a folder; of a symbolic link, the link only."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def is_sharded(model: Mapping[str, Tensor]) -> bool:
    """Whether each rank has a shard of every weight."""
    return any(isinstance(tensor, DTensor) for tensor in model.values())


def write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the shards of all ranks; a file per rank."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        state_dict_saver.save(dict(tensors), storage_writer=writer)
    except CheckpointException:  # Raised on all ranks when one of them fails.
        remove_folder(folder)
        raise


def manifest_text(hashes: Mapping[str, str]) -> str:
    """Return the content of `manifest.json`, from the hashes of the other files."""
    return _json_text({"format": FORMAT, "sha256": hashes})


def write_json(path: Path, content: Any) -> None:
    """Write a value as JSON."""
    path.write_text(_json_text(content), encoding="utf-8")


def _json_text(content: Any) -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def find_damage(path: Path) -> str | None:
    """Describe what is wrong with a checkpoint; None if it is intact."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, expected {FORMAT}"
        hashes = dict(manifest["sha256"])
    except FileNotFoundError:
        return f"it has no {MANIFEST}"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return f"its {MANIFEST} cannot be read"
    return next(_damages(path, hashes), None)


def _damages(path: Path, hashes: Mapping[str, str]) -> Iterator[str]:
    yield from verify_hashes(path, hashes)
    for file in path.iterdir():
        if file.name not in hashes and file.name != MANIFEST:
            yield f"{file.name} is not part of it"
