"""Documents that the server translates for clients: their jobs, files and life.

A job has a random id and a random secret; without both, nobody gets the result. The secret is
stored as a hash. Files are readable by the server only. The input is deleted when the translation
ends, and the result 30 minutes after the last change.
"""

from __future__ import annotations

import re
import secrets
import shutil
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from dragoman.serving.interface import ServiceError
from dragoman.serving.stores.database import Database, hash_secret, is_secret

DocumentStatus = Literal["queued", "translating", "done", "error"]

LIFE_SECONDS = 30 * 60.0
"""After the last change of a job."""
SILENCE_SECONDS = 2 * 60.0
"""A job that no process has confirmed for so long is lost: its process ended."""
MAX_DOCUMENTS = 200
"""Of one owner, at the same time."""
_FOLDER = "documents"
_ID = re.compile(r"[0-9a-f]{32}")
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class DocumentJob:
    """A document that is translated."""

    id: str
    """128 random bits."""
    secret: str
    """Only in the answer of `add_document`; empty otherwise."""
    owner: str
    name: str
    """The client's name of the file, for the download. Never part of a path, never logged."""
    source: str
    """Empty: detected."""
    target: str
    status: DocumentStatus
    units_done: int
    units: int
    characters: int
    flagged: int
    """Units that a person should look at; known when the job is done."""
    error: str
    """For the client; contains no text of the document."""
    created: datetime
    updated: datetime
    folder: Path
    """Mode 0700; for the files of this job only."""

    @property
    def input(self) -> Path:
        """Where the uploaded file is stored; the name is ours, the extension is the client's."""
        return self.folder / f"input{self.extension}"

    @property
    def output(self) -> Path:
        """Where the translated file is stored."""
        return self.folder / f"output{self.extension}"

    @property
    def extension(self) -> str:
        """The extension of the client's file name, in lower case; empty if it is unusual."""
        dot = self.name.rfind(".")
        extension = self.name[dot:] if dot >= 0 else ""
        return extension.lower() if _EXTENSION.fullmatch(extension) else ""


class Documents(Database):
    """The document jobs of all owners."""

    def add_document(self, owner: str, name: str, target: str, source: str = "") -> DocumentJob:
        """Create a job with an empty folder; the caller moves the file to `job.input`."""
        job_id, secret = secrets.token_hex(16), secrets.token_hex(32)
        name = name.encode(errors="replace").decode()[-255:]
        with self._write() as connection:
            (count,) = connection.execute(
                "SELECT COUNT(*) FROM documents WHERE owner = ?", (owner,)
            ).fetchone()
            if count >= MAX_DOCUMENTS:
                raise ServiceError(
                    "rate", f"There are {count:,} documents, which is the maximum. Try again later."
                )
            now = self.now()
            connection.execute(
                "INSERT INTO documents (id, digest, owner, name, source, target, status, created,"
                " updated) VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
                (job_id, hash_secret(secret), owner, name, source, target, now, now),
            )
            folder = self._folder(job_id)
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700)
            job = self._job(connection, job_id)
        assert job is not None
        return replace(job, secret=secret)

    def document(self, job_id: str, secret: str, owner: str | None = None) -> DocumentJob:
        """Return a job; raise `ServiceError` (`not_found`) if the id, secret or owner is wrong.

        Without `owner`, the secret is enough: a link to the result carries no API key.
        """
        connection = self._connection()
        row = connection.execute(
            "SELECT digest FROM documents WHERE id = ? AND updated > ?",
            (_checked(job_id), self.now() - LIFE_SECONDS),
        ).fetchone()
        is_right = is_secret(secret, row[0] if row else None)
        job = self._job(connection, job_id) if is_right else None
        if job is None or owner not in (None, job.owner):
            raise _missing()
        return job

    def update_document(
        self,
        job_id: str,
        *,
        status: DocumentStatus | None = None,
        units_done: int | None = None,
        units: int | None = None,
        characters: int | None = None,
        flagged: int | None = None,
        error: str | None = None,
    ) -> None:
        """Change the given fields of a job.

        With the status `done`, the input is deleted and the output becomes readable by the server
        only. With the status `error`, all files are deleted. A job that no longer exists is
        ignored.
        """
        folder = self._folder(job_id)
        if status == "done":
            for path in folder.glob("output*"):
                path.chmod(0o600)
        with self._write(is_durable=status is not None) as connection:
            connection.execute(
                "UPDATE documents SET status = COALESCE(?, status),"
                " units_done = COALESCE(?, units_done), units = COALESCE(?, units),"
                " characters = COALESCE(?, characters), flagged = COALESCE(?, flagged),"
                " error = COALESCE(?, error), updated = ? WHERE id = ?",
                (status, units_done, units, characters, flagged, error, self.now(), job_id),
            )
        if status in ("done", "error"):
            _remove_files(folder, "input*" if status == "done" else "*")

    def delete_document(self, job_id: str) -> None:
        """Delete a job with its files, for example when its upload failed."""
        with self._write() as connection:
            connection.execute("DELETE FROM documents WHERE id = ?", (job_id,))
        shutil.rmtree(self._folder(job_id), ignore_errors=True)

    def expire_documents(self, active: Collection[str] = ()) -> None:
        """Delete old jobs and their files; call it when the server starts, and every 30 seconds.

        `active` are the ids of the jobs that this process translates or will translate. A job that
        no process names for 2 minutes gets the status `error`, because its process ended.
        """
        now = self.now()
        with self._write(is_durable=False) as connection:
            connection.executemany(
                "UPDATE documents SET updated = ? WHERE id = ?",
                [(now, job_id) for job_id in active],
            )
            connection.execute(
                "UPDATE documents SET status = 'error', error = ?"
                " WHERE status IN ('queued', 'translating') AND updated < ?",
                ("The server was restarted. Send the document again.", now - SILENCE_SECONDS),
            )
            connection.execute("DELETE FROM documents WHERE updated < ?", (now - LIFE_SECONDS,))
            rows = connection.execute("SELECT id, status FROM documents")
            statuses: dict[str, DocumentStatus] = dict(rows.fetchall())
            # Inside the transaction: a new job adds its row and its folder in one transaction.
            folders = list((self.folder / _FOLDER).glob("*"))
        for folder in folders:
            status = statuses.get(folder.name)
            if status is None:
                shutil.rmtree(folder, ignore_errors=True)
            elif status == "error":
                _remove_files(folder, "*")

    def _folder(self, job_id: str) -> Path:
        return self.folder / _FOLDER / _checked(job_id)

    def _job(self, connection: sqlite3.Connection, job_id: str) -> DocumentJob | None:
        row = connection.execute(
            "SELECT owner, name, source, target, status, units_done, units, characters,"
            " flagged, error, created, updated FROM documents WHERE id = ?",
            (job_id,),
        ).fetchone()
        if row is None:
            return None
        times = (datetime.fromtimestamp(seconds, UTC) for seconds in row[-2:])
        fields = (job_id, "", *row[:-2], *times, self._folder(job_id))
        return DocumentJob(*fields)


def _checked(job_id: str) -> str:
    """Refuse an id that is not one of ours: it becomes part of a path."""
    if not _ID.fullmatch(job_id):
        raise _missing()
    return job_id


def _missing() -> ServiceError:
    return ServiceError("not_found", "The document does not exist, or its key is wrong.")


def _remove_files(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        path.unlink(missing_ok=True)
