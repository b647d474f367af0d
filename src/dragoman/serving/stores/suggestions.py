"""Better translations that people sent, kept for a later adaptation of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from dragoman.serving.interface import ServiceError
from dragoman.serving.stores.database import Database, check_text

MAX_SUGGESTIONS = 100_000
"""Until the operator exports and removes them."""
_MAX_CHARACTERS = 20_000
"""Of one text."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A better translation of a text."""

    id: int
    owner: str
    """The id of the key; empty on a server without keys."""
    source: str
    target: str
    source_text: str
    machine_text: str
    """What the server had translated; may be empty."""
    suggestion: str
    model: str
    """The version of the model that wrote `machine_text`; may be empty."""
    created: datetime


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
        check_text(source_text, "text", _MAX_CHARACTERS)
        check_text(suggestion, "suggestion", _MAX_CHARACTERS)
        if machine_text.strip():
            check_text(machine_text, "translation", _MAX_CHARACTERS)
        with self._write() as connection:
            (count,) = connection.execute("SELECT COUNT(*) FROM suggestions").fetchone()
            if count >= MAX_SUGGESTIONS:
                raise ServiceError("forbidden", "The server keeps no more suggestions.")
            inserted = connection.execute(
                "INSERT INTO suggestions (owner, source, target, source_text, machine_text,"
                " suggestion, model, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (owner, source, target, source_text, machine_text, suggestion, model, self.now()),
            )
            assert inserted.lastrowid is not None
            return inserted.lastrowid

    def suggestions(self) -> Iterator[Suggestion]:
        """Return all suggestions, oldest first."""
        rows = self._connection().execute(
            "SELECT id, owner, source, target, source_text, machine_text, suggestion, model,"
            " created FROM suggestions ORDER BY id"
        )
        for row in rows:
            fields = (*row[:-1], datetime.fromtimestamp(row[-1], UTC))
            yield Suggestion(*fields)

    def remove_suggestions(self, ids: list[int]) -> None:
        """Remove suggestions that were exported."""
        with self._write() as connection:
            connection.executemany("DELETE FROM suggestions WHERE id = ?", [(i,) for i in ids])
