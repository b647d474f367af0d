"""Glossaries that clients store on the server; each has one or more dictionaries."""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dragoman.serving.interface import ServiceError
from dragoman.serving.stores.database import Database, check_text
from dragoman.serving.stores.entries import MAX_ENTRIES, Entries, check_term

MAX_GLOSSARIES = 1000
"""Of one owner."""
MAX_DICTIONARIES = 100
"""Of one glossary."""
_MAX_NAME = 1024
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The entries of a glossary for one language pair.

    The codes are kept as they are given; the APIs write them in one form, for example `en`.
    """

    source: str
    target: str
    entries: Entries


@dataclass(frozen=True, slots=True)
class DictionaryInfo:
    """A dictionary without its entries."""

    source: str
    target: str
    entry_count: int


@dataclass(frozen=True, slots=True)
class GlossaryInfo:
    """A glossary without its entries."""

    id: str
    name: str
    created: datetime
    """UTC."""
    revision: int
    """Counts the changes, so that a cache knows when its copy is old."""
    dictionaries: tuple[DictionaryInfo, ...]

    def dictionary(self, source: str, target: str) -> DictionaryInfo:
        """Return the dictionary of a language pair; raise `ServiceError` if there is none."""
        for info in self.dictionaries:
            if (info.source, info.target) == (source, target):
                return info
        raise _missing_dictionary()


class Glossaries(Database):
    """The glossaries of all owners; an owner sees only its own.

    Every change is visible to all processes when the method returns.
    """

    def add_glossary(
        self, owner: str, name: str, dictionaries: Sequence[Dictionary]
    ) -> GlossaryInfo:
        """Store a new glossary."""
        check_text(name, "name of the glossary", _MAX_NAME)
        _check_dictionaries(dictionaries)
        glossary_id = str(uuid.uuid4())
        with self._write() as connection:
            (count,) = connection.execute(
                "SELECT COUNT(*) FROM glossaries WHERE owner = ?", (owner,)
            ).fetchone()
            if count >= MAX_GLOSSARIES:
                raise ServiceError(
                    "bad_request",
                    f"There are {count:,} glossaries, which is the maximum. Delete one first.",
                )
            connection.execute(
                "INSERT INTO glossaries (id, owner, name, created) VALUES (?, ?, ?, ?)",
                (glossary_id, owner, name, self.now()),
            )
            for dictionary in dictionaries:
                _merge(connection, glossary_id, dictionary)
            return _info(connection, owner, glossary_id)

    def glossaries(self, owner: str) -> list[GlossaryInfo]:
        """Return all glossaries of an owner, oldest first."""
        rows = self._connection().execute(
            _SELECT_INFO + "WHERE owner = ? ORDER BY g.created, g.id, d.id", (owner,)
        )
        return _infos(rows.fetchall())

    def glossary(self, owner: str, glossary_id: str) -> GlossaryInfo:
        """Return a glossary; raise `ServiceError` (`not_found`) if the owner does not have it."""
        return _info(self._connection(), owner, glossary_id)

    def glossary_entries(
        self, owner: str, glossary_id: str, source: str, target: str
    ) -> list[tuple[str, str]]:
        """Return the entries of a dictionary, in the order in which they were added."""
        self.glossary(owner, glossary_id).dictionary(source, target)
        rows = self._connection().execute(
            "SELECT e.term, e.translation FROM glossaries g"
            " JOIN dictionaries d ON d.glossary = g.id JOIN entries e ON e.dictionary = d.id"
            " WHERE g.id = ? AND g.owner = ? AND d.source = ? AND d.target = ? ORDER BY e.id",
            (glossary_id, owner, source, target),
        )
        return rows.fetchall()

    def change_glossary(
        self, owner: str, glossary_id: str, name: str, dictionaries: Sequence[Dictionary] = ()
    ) -> GlossaryInfo:
        """Change the name, unless it is empty, and merge entries into dictionaries; all or nothing.

        A dictionary that does not exist is created.
        """
        if name:
            check_text(name, "name of the glossary", _MAX_NAME)
        if dictionaries:
            _check_dictionaries(dictionaries)
        with self._write() as connection:
            _touch(connection, owner, glossary_id)
            if name:
                connection.execute(
                    "UPDATE glossaries SET name = ? WHERE id = ?", (name, glossary_id)
                )
            for dictionary in dictionaries:
                _merge(connection, glossary_id, dictionary)
            return _info(connection, owner, glossary_id)

    def replace_dictionary(
        self, owner: str, glossary_id: str, dictionary: Dictionary
    ) -> GlossaryInfo:
        """Replace all entries of a dictionary; create the dictionary if there is none."""
        _check_dictionaries([dictionary])
        with self._write() as connection:
            _touch(connection, owner, glossary_id)
            _remove(connection, glossary_id, dictionary.source, dictionary.target)
            _merge(connection, glossary_id, dictionary)
            return _info(connection, owner, glossary_id)

    def delete_dictionary(self, owner: str, glossary_id: str, source: str, target: str) -> None:
        """Delete the dictionary of a language pair."""
        with self._write() as connection:
            _touch(connection, owner, glossary_id)
            if not _remove(connection, glossary_id, source, target):
                raise _missing_dictionary()

    def delete_glossary(self, owner: str, glossary_id: str) -> None:
        """Delete a glossary with its dictionaries."""
        with self._write() as connection:
            _touch(connection, owner, glossary_id)
            connection.execute("DELETE FROM glossaries WHERE id = ?", (glossary_id,))


_SELECT_INFO = (
    "SELECT g.id, g.name, g.created, g.revision, d.source, d.target,"
    " (SELECT COUNT(*) FROM entries e WHERE e.dictionary = d.id)"
    " FROM glossaries g LEFT JOIN dictionaries d ON d.glossary = g.id "
)

_InfoRow = tuple[str, str, float, int, str | None, str, int]


def _info(connection: sqlite3.Connection, owner: str, glossary_id: str) -> GlossaryInfo:
    _check_id(glossary_id)
    rows = connection.execute(
        _SELECT_INFO + "WHERE g.id = ? AND g.owner = ? ORDER BY d.id", (glossary_id, owner)
    ).fetchall()
    if not rows:
        raise _missing_glossary()
    return _infos(rows)[0]


def _infos(rows: list[_InfoRow]) -> list[GlossaryInfo]:
    """Group the rows of dictionaries by glossary."""
    groups: dict[str, list[_InfoRow]] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    return [
        GlossaryInfo(
            id=group[0][0],
            name=group[0][1],
            created=datetime.fromtimestamp(group[0][2], UTC),
            revision=group[0][3],
            dictionaries=tuple(
                DictionaryInfo(source, target, count)
                for *_, source, target, count in group
                if source is not None
            ),
        )
        for group in groups.values()
    ]


def _touch(connection: sqlite3.Connection, owner: str, glossary_id: str) -> None:
    """Count a change; raise an error if the owner does not have the glossary."""
    _check_id(glossary_id)
    changed = connection.execute(
        "UPDATE glossaries SET revision = revision + 1 WHERE id = ? AND owner = ?",
        (glossary_id, owner),
    )
    if not changed.rowcount:
        raise _missing_glossary()


def _merge(connection: sqlite3.Connection, glossary_id: str, dictionary: Dictionary) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO dictionaries (glossary, source, target) VALUES (?, ?, ?)",
        (glossary_id, dictionary.source, dictionary.target),
    )
    ids = connection.execute(
        "SELECT id, source, target FROM dictionaries WHERE glossary = ?", (glossary_id,)
    ).fetchall()
    if len(ids) > MAX_DICTIONARIES:
        raise ServiceError(
            "bad_request", f"A glossary has at most {MAX_DICTIONARIES} dictionaries."
        )
    pair = (dictionary.source, dictionary.target)
    (dictionary_id,) = (number for number, *languages in ids if tuple(languages) == pair)
    connection.executemany(
        "INSERT INTO entries (dictionary, term, translation) VALUES (?, ?, ?)"
        " ON CONFLICT (dictionary, term) DO UPDATE SET translation = excluded.translation",
        ((dictionary_id, term, translation) for term, translation in dictionary.entries),
    )
    (count,) = connection.execute(
        "SELECT COUNT(*) FROM entries WHERE dictionary = ?", (dictionary_id,)
    ).fetchone()
    if count > MAX_ENTRIES:
        raise ServiceError("bad_request", f"A dictionary has at most {MAX_ENTRIES:,} entries.")


def _remove(connection: sqlite3.Connection, glossary_id: str, source: str, target: str) -> bool:
    removed = connection.execute(
        "DELETE FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
        (glossary_id, source, target),
    )
    return removed.rowcount > 0


def _check_dictionaries(dictionaries: Sequence[Dictionary]) -> None:
    pairs = [(dictionary.source, dictionary.target) for dictionary in dictionaries]
    if not pairs:
        raise ServiceError("bad_request", "The glossary has no dictionary.")
    if len(set(pairs)) < len(pairs):
        raise ServiceError("bad_request", "The glossary has two dictionaries of one language pair.")
    for dictionary in dictionaries:
        if not dictionary.entries:
            raise ServiceError("bad_request", "The glossary has no entries.")
        for number, entry in enumerate(dictionary.entries, start=1):
            for term in entry:
                check_term(term, number)


def _check_id(glossary_id: str) -> None:
    """Refuse an id that is not one of ours; it may even contain what SQLite cannot take."""
    if not _ID.fullmatch(glossary_id):
        raise _missing_glossary()


def _missing_glossary() -> ServiceError:
    return ServiceError("not_found", "The glossary does not exist.")


def _missing_dictionary() -> ServiceError:
    return ServiceError("not_found", "The glossary has no dictionary of this language pair.")
