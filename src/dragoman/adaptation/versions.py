"""The versions of an adapted model: which one is used, and where each of them comes from.

    current           symbolic link to versions/N: the model that is used
    history.jsonl     one `VersionRecord` per line, oldest first
    versions/N/       model folders: 1 is the model that was adapted first, the others were accepted
    refused/N/        model folders that the gate refused, with their reports
    tests/, work/     test sets and unfinished adaptations; see `adapt.py`

Numbers are not used twice. A version is never changed and never removed here.

Two files say what happened, `history.jsonl` and `current`, and they cannot be replaced in one step.
So a new version, or a rollback, has one step that decides. The new history is first written to
`.history.next.jsonl`, then `current` is replaced, then the history is renamed. The next history is
valid if and only if `current` points to the version in its last line. A process that is killed at
any moment therefore leaves the old state or the new one, and readers have nothing to repair.
A refused candidate does not change `current`; writing the history decides.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from dragoman.artifact import CHECKPOINTS, CURRENT, read_artifact, resolve_model
from dragoman.errors import ArtifactError
from dragoman.storage.files import atomic_folder, atomic_symlink, link_or_copy, write_text
from dragoman.storage.lock import FolderLockedError, lock_folder

IMPORTED, ROLLBACK = "imported", "rollback"
"""Methods of the first version and of a rollback."""
HISTORY = "history.jsonl"
_NEXT = ".history.next.jsonl"
_VERSIONS, _REFUSED, _TESTS, _WORK = "versions", "refused", "tests", "work"
_LINK = re.compile(rf"{_VERSIONS}/(\d+)/?")
_LINKED_SUFFIXES = (".safetensors", ".bin")
"""Files that no program changes in place, so two folders can share them. The rest is copied."""


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class DataFile(BaseModel):
    """A file with training pairs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    sha256: str
    pairs: int
    """Pairs that were read from it."""


class VersionScore(BaseModel):
    """A score of a version and of its parent on a test set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    test_set: Literal["in_domain", "general"]
    metric: str
    """For example BLEU."""
    before: float
    """Of the parent."""
    after: float
    p_value: float | None = None
    """Of a paired test of the difference; None if there was none."""


class VersionRecord(BaseModel):
    """One line of the history: a version, or a rollback to an older one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=1)
    """The version; of a rollback, the older version that is current again."""
    parent: int | None = None
    """The version it was adapted from; of a rollback, the version that was current before."""
    created: AwareDatetime = Field(default_factory=_now)
    method: str
    """`imported`, `full`, `adapters` or `rollback`."""
    state: Literal["accepted", "refused"]
    accepted_by: str = ""
    """`import`, `gate` or `user NAME`; empty if it was refused."""
    data: tuple[DataFile, ...] = ()
    """What this version learned that its parent had not."""
    scores: tuple[VersionScore, ...] = ()
    model_sha256: str
    """SHA-256 of the weights."""

    @property
    def is_rollback(self) -> bool:
        """Whether this line is a rollback and not a version of its own."""
        return self.method == ROLLBACK

    def score(self, test_set: str, metric: str) -> VersionScore | None:
        """Return one score of the version, if it was measured."""
        fitting = (
            score for score in self.scores if (score.test_set, score.metric) == (test_set, metric)
        )
        return next(fitting, None)


@dataclass(frozen=True, slots=True)
class _State:
    history: tuple[VersionRecord, ...]
    current: int


class VersionedModel:
    """A folder with several versions of a model.

    The object shows the folder as it was when it was opened, or when the object changed it last.
    """

    def __init__(self, folder: Path, state: _State) -> None:
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
            _add_folder(source, folder / _VERSIONS / "1")
            _publish(folder, [record])
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> VersionedModel:
        """Open a versioned model, or raise with what is wrong with it."""
        return cls(folder, _read_state(folder))

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
        return _next_number(self._state)

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
            state = self._state = _read_state(self.folder)
            self._check_record(record)
            _add_folder(candidate, _folder_of(self.folder, record))
            history = [*state.history, record]
            if record.state == "accepted":
                _publish(self.folder, history)
            else:
                write_text(self.folder / HISTORY, _dump(history))
            self._state = _read_state(self.folder)
        return record

    def rollback(self, to: int | None = None) -> VersionRecord:
        """Make an older version current: `to`, or else the parent of the current one.

        `to` may also be a newer version, to undo a rollback. Returns the new line of the history.
        """
        with _locked(self.folder):
            state = self._state = _read_state(self.folder)
            target = self.record(to if to is not None else self._parent())
            self._check_target(target)
            record = VersionRecord(
                number=target.number,
                parent=state.current,
                method=ROLLBACK,
                state="accepted",
                accepted_by=f"user {_user()}",
                model_sha256=target.model_sha256,
            )
            _publish(self.folder, [*state.history, record])
            self._state = _read_state(self.folder)
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


def is_versioned(folder: Path) -> bool:
    """Whether a folder is a versioned model."""
    return os.path.lexists(folder / CURRENT) and (
        (folder / HISTORY).exists() or (folder / _NEXT).exists()
    )


def _read_state(folder: Path) -> _State:
    """Read history and `current`; another process may change them meanwhile."""
    while True:
        current = _read_link(folder)
        # First the next history: if it is gone, it has become the history.
        following = _read_history(folder / _NEXT)
        history = _read_history(folder / HISTORY)
        if _read_link(folder) == current:
            break
    if following and following[-1].number == current:
        history = following
    if not any(record.number == current for record in history):
        raise ArtifactError(
            f"{HISTORY} of {str(folder)!r} has no version {current}, which is the current one; "
            "copy the folder again from the original"
        )
    return _State(tuple(history), current)


def _read_link(folder: Path) -> int:
    """Return the number that `current` points to."""
    link = folder / CURRENT
    if not link.is_symlink():
        what = f"{str(folder)!r} is not a model with versions"
        if link.exists():
            what += f": {CURRENT} is not a symbolic link; copy the folder with its links"
        raise ArtifactError(f"{what}; expected a folder that `dragoman adapt` wrote")
    target = os.readlink(link)
    match = _LINK.fullmatch(target)
    if match is None:
        command = f"ln -sfn {_VERSIONS}/1 {shlex.quote(str(link))}"
        raise ArtifactError(
            f"{str(link)!r} points to {target!r}, expected {_VERSIONS}/NUMBER; to use version 1, "
            f"type: {command}"
        )
    return int(match[1])


def _read_history(path: Path) -> list[VersionRecord]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise ArtifactError(f"{str(path)!r} is damaged: it is not UTF-8") from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(VersionRecord.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise ArtifactError(
                f"{str(path)!r}, line {number}: {where}: {first['msg']}; the file is damaged, or a "
                "newer version of Dragoman wrote it"
            ) from None
    return records


def _publish(folder: Path, history: Sequence[VersionRecord]) -> None:
    """Make the version in the last line current. Replacing `current` is the step that decides."""
    write_text(folder / _NEXT, _dump(history))
    atomic_symlink(f"{_VERSIONS}/{history[-1].number}", folder / CURRENT)
    (folder / _NEXT).replace(folder / HISTORY)


def _dump(history: Sequence[VersionRecord]) -> str:
    return "".join(record.model_dump_json() + "\n" for record in history)


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
    parent = _VERSIONS if record.state == "accepted" else _REFUSED
    return folder / parent / str(record.number)


def _next_number(state: _State) -> int:
    return max(record.number for record in state.history) + 1


def _check_new(folder: Path) -> None:
    """Refuse a folder with content of somebody else."""
    if os.path.lexists(folder / CURRENT):
        raise ArtifactError(
            f"{str(folder)!r} already has versions; to adapt it further, type: dragoman adapt "
            f"{shlex.quote(str(folder))} --data FILES"
        )
    known = {_VERSIONS, _REFUSED, _TESTS, _WORK}
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
            _tidy(folder)
            yield
    except FolderLockedError as error:
        raise ArtifactError(
            f"process {error.pid} is changing {str(folder)!r}; wait until it ends"
        ) from None


def _tidy(folder: Path) -> None:
    following = _read_history(folder / _NEXT)
    is_begun = bool(following) and os.path.lexists(folder / CURRENT)
    if is_begun and following[-1].number == _read_link(folder):
        (folder / _NEXT).replace(folder / HISTORY)
    (folder / _NEXT).unlink(missing_ok=True)
    for parent in (folder, folder / _VERSIONS, folder / _REFUSED):
        for path in parent.glob(".*.tmp"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run with a number that has no name.
        return str(os.getuid())
