"""Better translations that people sent, kept for a later adaptation of the model.

A suggestion is `new` until a person approves or rejects it. Only approved ones are used.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from dragoman.errors import DataError
from dragoman.serving.interface import ServiceError
from dragoman.serving.stores.database import Database, check_text

Status = Literal["new", "approved", "rejected"]
STATUSES: tuple[Status, ...] = get_args(Status)

MAX_SUGGESTIONS = 100_000
"""Until the operator exports and removes them."""
_MAX_CHARACTERS = 20_000
"""Of one text."""
_MAX_NAMED_IDS = 5


@dataclass(frozen=True, slots=True)
class Correction:
    """The texts of a suggestion."""

    source_text: str
    machine_text: str
    """What the server had translated; may be empty."""
    suggestion: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A better translation of a text."""

    id: int
    owner: str
    """The id of the key; `user NAME` if it was imported from a file; empty without keys."""
    source: str
    target: str
    source_text: str
    machine_text: str
    """What the server had translated; may be empty."""
    suggestion: str
    model: str
    """The version of the model that wrote `machine_text`. If the client did not name it, the one
    that the server used when the suggestion arrived; empty if it was imported without a version."""
    created: datetime
    status: Status
    decided_by: str
    """The user who approved or rejected it; empty if it is new."""
    decided: datetime | None


class Suggestions(Database):
    """The suggestions of all owners."""

    def add_suggestion(
        self,
        owner: str,
        *,
        source: str,
        target: str,
        source_text: str,
        machine_text: str,
        suggestion: str,
        model: str,
    ) -> int:
        """Store a suggestion; return its number."""
        correction = check_correction(Correction(source_text, machine_text, suggestion))
        with self._write() as connection:
            if _count(connection) >= MAX_SUGGESTIONS:
                raise ServiceError("forbidden", "The server keeps no more suggestions.")
            return self._insert(connection, owner, source, target, correction, model)

    def add_corrections(
        self,
        owner: str,
        corrections: Sequence[Correction],
        *,
        source: str,
        target: str,
        model: str = "",
    ) -> int:
        """Store several suggestions, all or none; return the number of those that are new.

        A suggestion is not stored if the same text already has the same suggestion.
        """
        new = {(one.source_text, one.suggestion): check_correction(one) for one in corrections}
        with self._write() as connection:
            known = connection.execute(
                "SELECT source_text, suggestion FROM suggestions WHERE source = ? AND target = ?",
                (source, target),
            )
            for texts in known:
                new.pop(texts, None)
            count = _count(connection)
            if count + len(new) > MAX_SUGGESTIONS:
                raise DataError(
                    f"there are {count:,} suggestions, and {len(new):,} more would exceed the "
                    f"maximum, {MAX_SUGGESTIONS:,}. To remove those that are not needed any more, "
                    "type: dragoman suggestions export --status all --remove"
                )
            for correction in new.values():
                self._insert(connection, owner, source, target, correction, model)
        return len(new)

    def _insert(
        self,
        connection: sqlite3.Connection,
        owner: str,
        source: str,
        target: str,
        correction: Correction,
        model: str,
    ) -> int:
        texts = (correction.source_text, correction.machine_text, correction.suggestion)
        inserted = connection.execute(
            "INSERT INTO suggestions (owner, source, target, source_text, machine_text,"
            " suggestion, model, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (owner, source, target, *texts, model, self.now()),
        )
        assert inserted.lastrowid is not None
        return inserted.lastrowid

    def suggestions(self) -> Iterator[Suggestion]:
        """Return all suggestions, oldest first."""
        rows = self._connection().execute(
            "SELECT id, owner, source, target, source_text, machine_text, suggestion, model,"
            " created, status, decided_by, decided FROM suggestions ORDER BY id"
        )
        for *fields, created, status, decided_by, decided in rows:
            moment = datetime.fromtimestamp(decided, UTC) if decided else None
            fields += [datetime.fromtimestamp(created, UTC), status, decided_by, moment]
            yield Suggestion(*fields)

    def decide_suggestions(self, ids: Collection[int], status: Status, user: str) -> None:
        """Approve or reject suggestions, also those that were decided before; all or none."""
        with self._write() as connection:
            missing = []
            for number in ids:
                changed = connection.execute(
                    "UPDATE suggestions SET status = ?, decided_by = ?, decided = ? WHERE id = ?",
                    (status, user, self.now(), number),
                )
                if not changed.rowcount:
                    missing.append(number)
            if missing:
                named = ", ".join(map(str, missing[:_MAX_NAMED_IDS]))
                more = ", ..." if len(missing) > _MAX_NAMED_IDS else ""
                raise DataError(
                    f"there is no suggestion {named}{more} in {str(self.folder)!r}; nothing was "
                    "changed. The numbers are in the list: dragoman suggestions list"
                )

    def remove_suggestions(self, ids: list[int]) -> None:
        """Remove suggestions that were exported."""
        with self._write() as connection:
            connection.executemany("DELETE FROM suggestions WHERE id = ?", [(i,) for i in ids])


def check_correction(correction: Correction) -> Correction:
    """Refuse texts that cannot be stored; the message does not repeat them."""
    check_text(correction.source_text, "text", _MAX_CHARACTERS)
    check_text(correction.suggestion, "suggestion", _MAX_CHARACTERS)
    if correction.machine_text.strip():
        check_text(correction.machine_text, "translation", _MAX_CHARACTERS)
    return correction


def _count(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT COUNT(*) FROM suggestions").fetchone()
    return int(count)
