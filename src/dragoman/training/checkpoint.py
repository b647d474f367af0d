"""How does a run survive anything?

A checkpoint is a folder `step-N`: tensors as safetensors, the rest as `state.json`, and the
SHA-256 of every file in `manifest.json`. It is filled under another name, flushed to the disk, and
then gets its name in one move, so it is there complete or not at all. The newest whose hashes are
right is taken; a damaged one is passed over, with the reason. Nothing is ever unpickled.

One rank that has all weights writes them itself; ranks that have shards write them side by side
through torch.distributed.checkpoint, whose reader also puts them together again, for any number of
ranks. It reads both kinds.
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

from dragoman.durable import damages, new_folder, sha256
from dragoman.errors import ArtifactError
from dragoman.shapes import Tensor
from dragoman.training.parallel import World

FORMAT = 1
_MODEL = "model.safetensors"
_OPTIMIZER = "optimizer.safetensors"
_STATE, _MANIFEST = "state.json", "manifest.json"
_NAME = re.compile(r"step-(\d+)")


class Found(NamedTuple):
    """The checkpoint to go on from, and why newer ones were passed over."""

    folder: Path
    state: dict[str, Any]
    passed_over: tuple[str, ...]


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
    ) -> Path:
        """Write a checkpoint; all ranks call this, and come back when it is there."""
        path = self._path(step)
        is_sharded = any(isinstance(each, DTensor) for each in model.values())
        # The same on every rank, and not taken for a checkpoint.
        temporary = self.folder / f".{path.name}.tmp"
        if self.world.is_first:
            shutil.rmtree(path, ignore_errors=True)  # Damaged, or it would have been taken.
            shutil.rmtree(temporary, ignore_errors=True)
        self.world.wait()
        if is_sharded:
            writer = HuggingFaceStorageWriter(str(temporary), save_distributed=True)
            try:
                state_dict_saver.save({**model, **optimizer}, storage_writer=writer)
            except CheckpointException:  # On all ranks, whoever failed, and none writes any more.
                shutil.rmtree(temporary, ignore_errors=True)
                raise
        if self.world.is_first:
            with new_folder(path, temporary):
                if not is_sharded:
                    save_file(dict(model), temporary / _MODEL)
                    save_file(dict(optimizer), temporary / _OPTIMIZER)
                _write_json(temporary / _STATE, state)
                files = {file.name: sha256(file) for file in sorted(temporary.iterdir())}
                _write_json(temporary / _MANIFEST, {"format": FORMAT, "sha256": files})
        return path

    def newest(self) -> Found | None:
        """Find the newest checkpoint that is whole; sweep away what a crash left half done."""
        chosen, passed_over = -1, []
        if self.world.is_first:  # One looks and tells the others: hashing reads everything.
            for left_over in self.folder.glob(".*"):
                shutil.rmtree(left_over, ignore_errors=True)
            for step in reversed(self.steps()):
                damage = _damage(self._path(step))
                if damage is None:
                    chosen = step
                    break
                passed_over.append(f"{self._path(step).name} is damaged: {damage}")
        shared = self.world.add_up(
            [chosen, len(passed_over)] if self.world.is_first else [0, 0], is_slow=True
        )
        chosen, damaged = int(shared[0]), int(shared[1])
        if chosen >= 0:
            path = self._path(chosen)
            state = json.loads((path / _STATE).read_text(encoding="utf-8"))
            return Found(path, state, tuple(passed_over))
        if damaged:
            raise ArtifactError(
                f"no checkpoint in {self.folder} can be used:\n  "
                + "\n  ".join(passed_over)
                + "\nRemove the run's folder to begin anew."
            )
        return None

    def check(self, steps: Sequence[int]) -> None:
        """Refuse checkpoints of which one is damaged; all ranks call this."""
        damaged = []
        if self.world.is_first:
            each_damage = ((self._path(step), _damage(self._path(step))) for step in steps)
            damaged = [f"{path} is damaged: {damage}" for path, damage in each_damage if damage]
        if self.world.add_up([len(damaged)], is_slow=True)[0]:
            raise ArtifactError(
                "the model would be made of checkpoints that cannot be used:\n  "
                + "\n  ".join(damaged)
                + "\nRemove them and run it again, to make it of the others."
            )

    def load(self, source: Path | int, tensors: Mapping[str, Tensor]) -> None:
        """Read from a folder, or from a step's, into these tensors, whole or sharded, in place."""
        folder = self._path(source) if isinstance(source, int) else source
        with warnings.catch_warnings():
            # Being alone is not worth a warning.
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            state_dict_loader.load(
                dict(tensors),
                storage_reader=HuggingFaceStorageReader(str(folder)),
                no_dist=not dist.is_initialized(),
            )

    def steps(self) -> list[int]:
        """The steps at which there is a checkpoint."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(each.name) for each in self.folder.iterdir())
        return sorted(int(match[1]) for match in names if match)

    def keep_only(self, steps: set[int]) -> None:
        """Remove the others, each in one move."""
        for step in set(self.steps()) - steps:
            path = self._path(step)
            leaving = path.rename(path.with_name(f".{path.name}.old"))
            shutil.rmtree(leaving, ignore_errors=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _damage(path: Path) -> str | None:
    """Say what is wrong with a checkpoint; nothing when it is whole."""
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, expected {FORMAT}"
        expected = dict(manifest["sha256"])
    except FileNotFoundError:
        return f"it has no {_MANIFEST}"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return f"its {_MANIFEST} cannot be read"
    return next(_damages(path, expected), None)


def _damages(path: Path, expected: Mapping[str, str]) -> Iterator[str]:
    yield from damages(path, expected)
    for file in path.iterdir():
        if file.name not in expected and file.name != _MANIFEST:
            yield f"{file.name} was not written with it"
