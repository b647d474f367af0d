"""API keys with scopes, and the characters that each used in a month.

A key is `dgm_ID_SECRET`: the id is public and appears in lists and logs; the secret has 256 random
bits, is shown once, and only its SHA-256 is stored.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from dragoman.errors import DataError, suggest
from dragoman.serving.interface import Scope
from dragoman.serving.stores.database import Database, hash_secret, is_secret

SCOPES: tuple[Scope, ...] = get_args(Scope)
_KEY = re.compile(r"dgm_([0-9a-f]{12})_([0-9a-f]{64})")
_MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class Key:
    """An API key without its secret."""

    id: str
    name: str
    """For the operator: whom the key was given to."""
    scopes: frozenset[Scope]
    characters_per_month: int
    """0 = no limit."""
    requests_per_minute: int
    """0 = the limit of the server."""
    created: datetime


@dataclass(frozen=True, slots=True)
class Usage:
    """What a key has used in this month (UTC)."""

    characters: int
    limit: int
    """0 = no limit."""


class Keys(Database):
    """All API keys; the quotas are shared between processes and survive a restart."""

    def add_key(
        self,
        name: str,
        scopes: Collection[Scope] = SCOPES,
        characters_per_month: int = 0,
        requests_per_minute: int = 0,
    ) -> str:
        """Create a key; return it with its secret, which is not stored."""
        if not name.strip() or not name.isprintable() or len(name) > _MAX_NAME:
            raise DataError(
                f"the name of a key must have 1 to {_MAX_NAME} printable characters; found "
                f"{name[:_MAX_NAME]!r}"
            )
        if not scopes:
            raise DataError(f"the key has no scope; expected one or more of {', '.join(SCOPES)}")
        parse_scopes(scopes)
        if characters_per_month < 0 or requests_per_minute < 0:
            raise DataError("a limit must not be negative; 0 = no limit")
        key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
        with self._write() as connection:
            connection.execute(
                "INSERT INTO keys (id, digest, name, scopes, characters_per_month,"
                " requests_per_minute, created) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    key_id,
                    hash_secret(secret),
                    name,
                    " ".join(sorted(scopes)),
                    characters_per_month,
                    requests_per_minute,
                    self.now(),
                ),
            )
        return f"dgm_{key_id}_{secret}"

    def keys(self) -> list[Key]:
        """Return all keys, oldest first."""
        rows = self._connection().execute(_SELECT + "ORDER BY created, id")
        return [_key(row[1:]) for row in rows]

    def find_key(self, key: str) -> Key | None:
        """Return the key that a client sent, or None if it is unknown or its secret is wrong.

        An unknown id takes the same comparison, so that the time does not tell which ids exist.
        """
        match = _KEY.fullmatch(key)
        key_id, secret = match.groups() if match else ("", "")
        row = self._connection().execute(_SELECT + "WHERE id = ?", (key_id,)).fetchone()
        is_right = is_secret(secret, row[0] if row else None)
        return _key(row[1:]) if is_right else None

    def remove_key(self, key_id: str) -> bool:
        """Remove a key with its usage, glossaries and documents; return whether it existed.

        Files of the documents are deleted when the server next looks for old ones. Suggestions are
        kept.
        """
        with self._write() as connection:
            removed = connection.execute("DELETE FROM keys WHERE id = ?", (key_id,)).rowcount
            if removed:
                connection.execute("DELETE FROM glossaries WHERE owner = ?", (key_id,))
                connection.execute("DELETE FROM documents WHERE owner = ?", (key_id,))
        return removed > 0

    def charge(self, key_id: str, characters: int) -> bool:
        """Count characters for a key; return False, and count nothing, if its quota is too small.

        Processes that charge at the same time cannot exceed the quota together.
        """
        if characters < 0:
            raise ValueError(characters)
        with self._write(is_durable=False) as connection:
            changed = connection.execute(
                "INSERT INTO usage (key, month, characters)"
                " SELECT id, :month, :characters FROM keys WHERE id = :key AND"
                " (characters_per_month = 0 OR :characters <= characters_per_month)"
                " ON CONFLICT (key, month) DO UPDATE SET characters = characters + :characters"
                " WHERE (SELECT characters_per_month = 0 OR"
                " usage.characters + :characters <= characters_per_month"
                " FROM keys WHERE id = :key)",
                {"key": key_id, "month": self._month(), "characters": characters},
            )
            return changed.rowcount > 0

    def refund(self, key_id: str, characters: int) -> None:
        """Give back characters that were charged for a request which was then refused."""
        with self._write(is_durable=False) as connection:
            connection.execute(
                "UPDATE usage SET characters = MAX(0, characters - ?) WHERE key = ? AND month = ?",
                (characters, key_id, self._month()),
            )

    def usage(self, key_id: str) -> Usage:
        """Return what a key has used in this month; nothing for a key that does not exist."""
        row = (
            self._connection()
            .execute(
                "SELECT COALESCE(usage.characters, 0), keys.characters_per_month FROM keys"
                " LEFT JOIN usage ON usage.key = keys.id AND usage.month = ? WHERE keys.id = ?",
                (self._month(), key_id),
            )
            .fetchone()
        )
        return Usage(*row) if row else Usage(0, 0)

    def _month(self) -> str:
        return datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m")


def parse_scopes(names: Collection[str]) -> tuple[Scope, ...]:
    """Check the names of scopes."""
    for name in names:
        if name not in SCOPES:
            raise DataError(f"found the scope {name!r}; {suggest(name, SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in names)


_SELECT = (
    "SELECT digest, id, name, scopes, characters_per_month, requests_per_minute, created FROM keys "
)


def _key(row: tuple[str, str, str, int, int, float]) -> Key:
    key_id, name, scopes, characters_per_month, requests_per_minute, created = row
    return Key(
        key_id,
        name,
        frozenset(scope for scope in SCOPES if scope in scopes.split()),
        characters_per_month,
        requests_per_minute,
        datetime.fromtimestamp(created, UTC),
    )
