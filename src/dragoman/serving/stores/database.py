"""The SQLite file of the server's state: opening it, its schema, its transactions.

Several threads and processes use the file at the same time. A writer waits for the others; readers
never wait. SQLite's write-ahead log needs shared memory, so all processes must run on one machine;
a network file system between machines does not work.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from dragoman.errors import ArtifactError, DataError
from dragoman.serving.interface import ServiceError

FILE = "state.sqlite3"
BUSY_SECONDS = 10.0
"""How long a writer waits for the others."""

_SCHEMA = """
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    characters_per_month INTEGER NOT NULL,
    requests_per_minute INTEGER NOT NULL,
    created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE usage (
    key TEXT NOT NULL REFERENCES keys(id) ON DELETE CASCADE,
    month TEXT NOT NULL,
    characters INTEGER NOT NULL,
    PRIMARY KEY (key, month)
) WITHOUT ROWID;
CREATE TABLE glossaries (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    created REAL NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX glossaries_by_owner ON glossaries (owner);
CREATE TABLE dictionaries (
    id INTEGER PRIMARY KEY,
    glossary TEXT NOT NULL REFERENCES glossaries(id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    UNIQUE (glossary, source, target)
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    dictionary INTEGER NOT NULL REFERENCES dictionaries(id) ON DELETE CASCADE,
    term TEXT NOT NULL,
    translation TEXT NOT NULL,
    UNIQUE (dictionary, term)
);
CREATE TABLE documents (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    status TEXT NOT NULL,
    units_done INTEGER NOT NULL DEFAULT 0,
    units INTEGER NOT NULL DEFAULT 0,
    characters INTEGER NOT NULL DEFAULT 0,
    flagged INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL,
    updated REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX documents_by_owner ON documents (owner);
CREATE TABLE suggestions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    source_text TEXT NOT NULL,
    machine_text TEXT NOT NULL,
    suggestion TEXT NOT NULL,
    model TEXT NOT NULL,
    created REAL NOT NULL
);
"""
_CHANGES = (
    _SCHEMA,
    """
ALTER TABLE suggestions ADD COLUMN status TEXT NOT NULL DEFAULT 'new';
ALTER TABLE suggestions ADD COLUMN decided_by TEXT NOT NULL DEFAULT '';
ALTER TABLE suggestions ADD COLUMN decided REAL NOT NULL DEFAULT 0;
""",
)
"""What leads from each version of the schema to the next; a new file gets all of them."""
SCHEMA_VERSION = len(_CHANGES)


class Database:
    """A folder with the SQLite file; one connection per thread."""

    def __init__(
        self, folder: Path, *, must_exist: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        """Open the state, or create it: the folder with mode 0700, the file with mode 0600.

        A folder that exists keeps its mode: it may be shared with other programs.
        """
        self.folder = folder
        self.now = now
        self._path = folder / FILE
        self._local = threading.local()
        self._open: weakref.WeakSet[_Connection] = weakref.WeakSet()
        if must_exist and not self._path.is_file():
            raise DataError(
                f"there is no server state in {str(folder)!r}; expected the file {FILE}. Name the "
                "folder that `dragoman serve --state` uses, or add a key: dragoman keys add"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the mode of this file to the files of the write-ahead log.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            self._create()
        except sqlite3.DatabaseError as error:
            self.close()
            raise ArtifactError(
                f"{self._path} cannot be opened as a SQLite database ({error}); restore it from a "
                "backup, or name another folder with --state"
            ) from None

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in list(self._open):
            connection.close()
        self._local = threading.local()

    def _create(self) -> None:
        connection = self._connection()
        _use_write_ahead_log(connection)
        with self._write() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise ArtifactError(
                    f"{self._path} has schema version {version}, written by a newer Dragoman; "
                    f"expected at most {SCHEMA_VERSION}. Update Dragoman, or name another folder "
                    "with --state"
                )
            if version < SCHEMA_VERSION:
                for change in _CHANGES[version:]:
                    for statement in change.split(";"):
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of this thread; a forked process must not use its parent's."""
        connection: _Connection | None = getattr(self._local, "connection", None)
        if connection is None or connection.pid != os.getpid():
            connection = _Connection(self._path)
            self._local.connection = connection
            self._open.add(connection)
        return connection.sqlite

    @contextlib.contextmanager
    def _write(self, *, is_durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Run a write transaction.

        What it wrote survives the end of the process. If it is durable, it also survives a power
        failure; that costs a flush of the disk.
        """
        connection = self._connection()
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if is_locked(error):
                raise ServiceError("overloaded", "The state of the server is busy.") from None
            raise


class _Connection:
    """A connection that is closed when its thread ends."""

    def __init__(self, path: Path) -> None:
        self.pid = os.getpid()
        self.sqlite = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self.sqlite.execute("PRAGMA foreign_keys = ON")

    def close(self) -> None:
        if self.pid == os.getpid():
            self.sqlite.close()

    def __del__(self) -> None:
        if hasattr(self, "sqlite"):
            self.close()


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to the write-ahead log; two processes that do so at once collide."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def is_locked(error: BaseException) -> bool:
    """Whether other processes held the file for too long."""
    return (
        isinstance(error, sqlite3.OperationalError)
        and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    )


def hash_secret(secret: str) -> bytes:
    """Return what is stored of a secret of 256 random bits, which needs no slow hash."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def is_secret(secret: str, stored: bytes | None) -> bool:
    """Compare a secret with its stored hash; the time does not tell whether there is one."""
    is_equal = hmac.compare_digest(hash_secret(secret), stored or bytes(32))
    return is_equal and stored is not None


def check_text(text: str, what: str, max_characters: int) -> str:
    """Refuse text that cannot be stored; the message does not repeat it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ServiceError("bad_request", f"The {what} is not valid Unicode.") from None
    if not text.strip():
        raise ServiceError("bad_request", f"The {what} is empty.")
    if len(text) > max_characters:
        raise ServiceError(
            "bad_request",
            f"The {what} has {len(text):,} characters; the maximum is {max_characters:,}.",
        )
    return text
