"""The versions of an adapted model: which one is used, and where each of them comes from.

    current           symbolic link to versions/N: the model that is used
    history.jsonl     one `VersionRecord` per line, oldest first
    versions/N/       model folders: 1 is the model that was adapted first, the others were accepted
    refused/N/        model folders that the gate refused, with their reports
    tests/, work/     test sets and unfinished adaptations; see `adapt.py`

Numbers are not used twice. The model of a version is never changed, and never removed here.
A process that is killed while it adds a version or rolls back leaves the old state or the new one
(`history.py`).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from dragoman.adaptation.history import (
    ROLLBACK,
    VERSIONS,
    DataFile,
    State,
    TestSet,
    VersionRecord,
    VersionScore,
    append_refused,
    is_versioned,
    publish,
    read_state,
    tidy,
)
from dragoman.artifact import CHECKPOINTS, read_artifact, resolve_model
from dragoman.errors import ArtifactError
from dragoman.storage.files import atomic_folder, link_or_copy
from dragoman.storage.lock import FolderLockedError, lock_folder
from dragoman.storage.machine import user_name

__all__ = [
    "DataFile",
    "TestSet",
    "VersionRecord",
    "VersionScore",
    "VersionedModel",
    "is_versioned",
]

IMPORTED = "imported"
"""The method of version 1."""
_REFUSED, _TESTS, _WORK = "refused", "tests", "work"
_LINKED_SUFFIXES = (".safetensors", ".bin")
"""Files that no program changes in place, so two folders can share them. The rest is copied."""


class VersionedModel:
    """A folder with several versions of a model.

    The object shows the folder as it was when it was opened, or when the object changed it last.
    """

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self._state = state

    @classmethod
    def create(cls, folder: Path, parent: Path) -> VersionedModel:
        """Make a versioned model whose version 1 is the finished model `parent`.

        A folder that a killed `create` left is used again; any other content is an error.
        """
        source = resolve_model(parent)
        artifact = read_artifact(source, trust_parts=True)
        _check_new(folder)
        record = VersionRecord(
            number=1,
            method=IMPORTED,
            state="accepted",
            accepted_by="import",
            model_sha256=artifact.model_hash,
        )
        with _locked(folder):
            _check_new(folder)
            _add_folder(source, folder / VERSIONS / "1")
            publish(folder, [record])
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> VersionedModel:
        """Open a versioned model, or raise with what is wrong with it."""
        return cls(folder, read_state(folder))

    @property
    def history(self) -> list[VersionRecord]:
        """All records, oldest first: versions, refused candidates and rollbacks."""
        return list(self._state.history)

    @property
    def versions(self) -> list[VersionRecord]:
        """The record of each version, accepted or refused, in the order of their numbers."""
        return [record for record in self._state.history if not record.is_rollback]

    @property
    def current(self) -> VersionRecord:
        """The version that is used."""
        return self.record(self._state.current)

    @property
    def next_number(self) -> int:
        """The number of the next candidate."""
        return max(record.number for record in self._state.history) + 1

    def record(self, number: int) -> VersionRecord:
        """Return the record of a version, or raise with the numbers that exist."""
        for record in self.versions:
            if record.number == number:
                return record
        numbers = ", ".join(str(record.number) for record in self.versions)
        raise ArtifactError(f"{str(self.folder)!r} has no version {number}; it has: {numbers}")

    def folder_of(self, number: int) -> Path:
        """Return the model folder of a version, accepted or refused."""
        return _folder_of(self.folder, self.record(number))

    def scores_of(self, number: int) -> dict[tuple[TestSet, str], float]:
        """Return the scores of a version by test set and metric.

        Version 1 was measured when the first candidate was compared with it.
        """
        own = {(score.test_set, score.metric): score.after for score in self.record(number).scores}
        as_parent = {
            (score.test_set, score.metric): score.before
            for record in self.versions
            if record.parent == number
            for score in record.scores
        }
        return as_parent | own

    def data_of(self, number: int) -> list[DataFile]:
        """Return the files that a version has learned since version 1, oldest first."""
        record: VersionRecord | None = self.record(number)
        files: list[DataFile] = []
        while record is not None:
            files = [*record.data, *files]
            record = self.record(record.parent) if record.parent is not None else None
        return files

    @property
    def tests(self) -> Path:
        """The folder of the fixed test sets."""
        return self.folder / _TESTS

    def work(self, number: int) -> Path:
        """Return the folder in which a candidate is made."""
        return self.folder / _WORK / str(number)

    def add(self, candidate: Path, record: VersionRecord) -> VersionRecord:
        """Add a finished model folder as the next version; an accepted one becomes current.

        The candidate stays where it is. Its checkpoints are not taken. A killed `add` can be
        repeated with the same arguments, unless the history already has the record: then it was
        finished.
        """
        artifact = read_artifact(candidate, trust_parts=True)
        if artifact.model_hash != record.model_sha256:
            raise ArtifactError(
                f"{str(candidate)!r} is not the model of the record: its weights have the SHA-256 "
                f"{artifact.model_hash}, expected {record.model_sha256}"
            )
        with _locked(self.folder):
            state = self._state = read_state(self.folder)
            self._check_record(record)
            _add_folder(candidate, _folder_of(self.folder, record))
            history = [*state.history, record]
            if record.state == "accepted":
                publish(self.folder, history)
            else:
                append_refused(self.folder, history)
            self._state = read_state(self.folder)
        return record

    def rollback(self, to: int | None = None) -> VersionRecord:
        """Make an older version current: `to`, or else the parent of the current one.

        `to` may also be a newer version, to undo a rollback. Returns the new line of the history.
        """
        with _locked(self.folder):
            state = self._state = read_state(self.folder)
            target = self.record(to if to is not None else self._parent())
            self._check_target(target)
            record = VersionRecord(
                number=target.number,
                parent=state.current,
                method=ROLLBACK,
                state="accepted",
                accepted_by=f"user {user_name()}",
                model_sha256=target.model_sha256,
            )
            publish(self.folder, [*state.history, record])
            self._state = read_state(self.folder)
        return record

    def _check_record(self, record: VersionRecord) -> None:
        """Refuse a candidate that was made for another state of the folder."""
        name, current = str(self.folder), self._state.current
        if record.is_rollback or record.number != self.next_number:
            raise ArtifactError(
                f"the next version of {name!r} is {self.next_number}, found a record of version "
                f"{record.number}; another adaptation has added a version meanwhile"
            )
        if record.state == "accepted" and record.parent != current:
            raise ArtifactError(
                f"the candidate was adapted from version {record.parent} of {name!r}, but the "
                f"current version is {current} now. To accept it, make version {record.parent} "
                f"current: dragoman models rollback {shlex.quote(name)} --to {record.parent}\n"
                "Then type the same command again"
            )

    def _parent(self) -> int:
        parent = self.current.parent
        if parent is None:
            raise ArtifactError(
                f"version {self._state.current} of {str(self.folder)!r} is the first one; there is "
                "no older version"
            )
        return parent

    def _check_target(self, target: VersionRecord) -> None:
        name = f"version {target.number} of {str(self.folder)!r}"
        if target.number == self._state.current:
            raise ArtifactError(f"{name} is already the current one")
        if target.state == "refused":
            raise ArtifactError(
                f"{name} was refused, so it cannot become current; its model and its report are in "
                f"{str(_folder_of(self.folder, target))!r}"
            )
        read_artifact(_folder_of(self.folder, target), trust_parts=True)


def _add_folder(source: Path, destination: Path) -> None:
    """Put a model folder at another path, without checkpoints; large files are shared."""
    if destination.exists():
        # A killed process left it. It is no version: the history does not have its number.
        shutil.rmtree(destination)
    with atomic_folder(destination) as temporary:
        for file in sorted(source.rglob("*")):
            name = file.relative_to(source)
            is_hidden = any(part.startswith(".") for part in name.parts)
            if is_hidden or name.parts[0] == CHECKPOINTS or not file.is_file():
                continue
            link_or_copy(file, temporary / name, links=file.suffix in _LINKED_SUFFIXES)


def _folder_of(folder: Path, record: VersionRecord) -> Path:
    parent = VERSIONS if record.state == "accepted" else _REFUSED
    return folder / parent / str(record.number)


def _check_new(folder: Path) -> None:
    """Refuse a folder with content of somebody else."""
    if is_versioned(folder):
        raise ArtifactError(
            f"{str(folder)!r} already has versions; to adapt it further, type: dragoman adapt "
            f"{shlex.quote(str(folder))} --data FILES"
        )
    known = {VERSIONS, _REFUSED, _TESTS, _WORK}
    if folder.is_dir():
        others = [name for name in os.listdir(folder) if name not in known and name[0] != "."]
        if others:
            raise ArtifactError(
                f"{str(folder)!r} is not empty: it has {sorted(others)[0]!r}; choose a new folder"
            )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process write at a time; first tidy up after one that was killed."""
    try:
        with lock_folder(folder):
            tidy(folder)
            for parent in (folder / VERSIONS, folder / _REFUSED):
                for path in parent.glob(".*.tmp"):
                    shutil.rmtree(path)
            for path in folder.glob(".*.tmp"):
                if path.is_symlink() or path.is_file():
                    path.unlink()
            yield
    except FolderLockedError as error:
        raise ArtifactError(
            f"process {error.pid} is changing {str(folder)!r}; wait until it ends"
        ) from None
