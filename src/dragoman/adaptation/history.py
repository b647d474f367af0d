"""The history of a model's versions and the link `current`: how they are read and replaced.

Two files say what happened, `history.jsonl` and `current`, and they cannot be replaced in one step.
So a new version, or a rollback, has one step that decides. The new history is first written to
`.history.next.jsonl`, then `current` is replaced, then the history is renamed. The next history is
valid if and only if `current` points to the version in its last line. A process that is killed at
any moment therefore leaves the old state or the new one, and readers have nothing to repair.
A refused candidate does not change `current`; writing the history decides.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from dragoman.artifact import CURRENT
from dragoman.errors import ArtifactError
from dragoman.storage.files import atomic_symlink, write_text

ROLLBACK = "rollback"
"""The method of a rollback."""
HISTORY = "history.jsonl"
VERSIONS = "versions"
"""Folder of the accepted versions."""
_NEXT = ".history.next.jsonl"
_LINK = re.compile(rf"{VERSIONS}/(\d+)/?")

TestSet = Literal["in_domain", "general"]


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

    test_set: TestSet
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

    @model_validator(mode="after")
    def _check_parent(self) -> VersionRecord:
        if not self.is_rollback and self.parent is not None and self.parent >= self.number:
            raise ValueError(f"found parent {self.parent} of version {self.number}")
        return self

    @property
    def is_rollback(self) -> bool:
        """Whether this line is a rollback and not a version of its own."""
        return self.method == ROLLBACK


@dataclass(frozen=True, slots=True)
class State:
    """What a folder holds."""

    history: tuple[VersionRecord, ...]
    current: int
    """The number of the version that is used."""


def is_versioned(folder: Path) -> bool:
    """Whether a folder is a model with versions, and not one model folder."""
    return (folder / CURRENT).is_symlink()


def read_state(folder: Path) -> State:
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
    return State(tuple(history), current)


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
        command = f"ln -sfn {VERSIONS}/1 {shlex.quote(str(link))}"
        raise ArtifactError(
            f"{str(link)!r} points to {target!r}, expected {VERSIONS}/NUMBER; to use version 1, "
            f"type: {command}"
        )
    return int(match[1])


def _read_history(path: Path) -> list[VersionRecord]:
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
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


def publish(folder: Path, history: Sequence[VersionRecord]) -> None:
    """Make the version in the last line current. Replacing `current` is the step that decides."""
    write_text(folder / _NEXT, _dump(history))
    atomic_symlink(f"{VERSIONS}/{history[-1].number}", folder / CURRENT)
    (folder / _NEXT).replace(folder / HISTORY)


def append_refused(folder: Path, history: Sequence[VersionRecord]) -> None:
    """Replace the history by one whose last line is a refused candidate."""
    write_text(folder / HISTORY, _dump(history))


def tidy(folder: Path) -> None:
    """Finish or remove the next history that a killed process left."""
    following = _read_history(folder / _NEXT)
    if following and is_versioned(folder) and following[-1].number == _read_link(folder):
        (folder / _NEXT).replace(folder / HISTORY)
    (folder / _NEXT).unlink(missing_ok=True)


def _dump(history: Sequence[VersionRecord]) -> str:
    return "".join(record.model_dump_json() + "\n" for record in history)
