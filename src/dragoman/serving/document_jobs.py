"""Translates uploaded documents in the background; clients ask for the status and the result.

The files and the status of a job are in the state of the server, so every process can answer for
it. The process that received the upload translates it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError
from dragoman.formats.base.folder import extensions
from dragoman.serving.document_translation import message_of
from dragoman.serving.interface import Caller, DocumentRequest, DocumentResult, ServiceError
from dragoman.text.glossary import Glossary

if TYPE_CHECKING:
    from dragoman.serving.context import Context
    from dragoman.serving.multipart import Upload
    from dragoman.serving.stores.documents import DocumentJob

_MAX_RUNNING = 4
"""Documents that are in memory at the same time; the others wait."""
_REPORT_SECONDS = 1.0
"""Between two reports of the progress."""
_EXPIRE_SECONDS = 30.0
"""Between two searches for old documents."""
_POLL_SECONDS = 0.1
"""Between two looks at a job of another process."""
_UPLOAD_LIFE_SECONDS = 3600.0
"""After which an upload without a job was left by a process that ended."""

_log = logging.getLogger("dragoman.serving")


class DocumentJobs:
    """The document jobs of this process; `async with` them while the server runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = Slots(_MAX_RUNNING)
        self._expiry: asyncio.Task[None] | None = None

    @property
    def uploads(self) -> Path:
        """The folder for uploads, on the same file system as the jobs."""
        folder = self._context.state.folder / "uploads"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    async def __aenter__(self) -> None:
        """Delete what earlier processes left, and go on deleting what gets too old."""
        await asyncio.to_thread(self._expire)
        self._expiry = asyncio.create_task(self._expire_always())

    async def __aexit__(self, *_: object) -> None:
        """Stop all jobs; their status becomes `error`."""
        tasks = [*self._tasks.values(), *([self._expiry] if self._expiry else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def start(
        self,
        upload: Upload,
        caller: Caller,
        *,
        target: str,
        source: str = "",
        glossary: Glossary | None = None,
        name: str = "",
    ) -> DocumentJob:
        """Take over an uploaded file and translate it in the background.

        `name` replaces the name of the file; its extension says the format. The answer has the
        secret of the job.
        """
        # A client that sends a path gets no file at that path.
        name = PurePosixPath((name or upload.name).replace("\\", "/")).name
        known = await asyncio.to_thread(extensions)
        if Path(name).suffix.lower() not in known:
            raise ServiceError(
                "bad_request",
                "The file is in no known format; its name must end with one of: "
                + ", ".join(sorted(known)),
            )
        used = self._context.state.usage(caller.key_id)
        if used.limit and used.characters >= used.limit:
            raise ServiceError("quota", f"The quota of {used.limit:,} characters is used up.")
        job = await asyncio.to_thread(
            self._context.state.add_document, caller.key_id, name, target, source
        )
        try:
            os.replace(upload.path, job.input)
            job.input.chmod(0o600)
        except OSError:
            await asyncio.to_thread(self._context.state.delete_document, job.id)
            raise
        request = DocumentRequest(job.input, name, job.output, target, source, glossary)
        task = asyncio.create_task(self._run(job, request, caller))
        self._tasks[job.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(job.id, None))
        return job

    def find(self, job_id: str, secret: str, owner: str | None = None) -> DocumentJob:
        """Return a job as it is now; without `owner`, the secret is enough."""
        return self._context.state.document(job_id, secret, owner)

    async def wait(
        self, job_id: str, secret: str, owner: str | None = None, seconds: float | None = None
    ) -> DocumentJob:
        """Return a job as soon as it has ended, or as it is after some seconds."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            job = self.find(job_id, secret, owner)
            left = None if end is None else end - time.monotonic()
            if job.status in ("done", "error") or (left is not None and left <= 0):
                return job
            task = self._tasks.get(job_id)
            if task is not None:
                await asyncio.wait({task}, timeout=left)
            else:
                await asyncio.sleep(_POLL_SECONDS)

    async def _run(self, job: DocumentJob, request: DocumentRequest, caller: Caller) -> None:
        update = self._context.state.update_document
        try:
            async with self._slots.use(caller.client):
                await asyncio.to_thread(update, job.id, status="translating")
                result = await self._translate(job, request, caller)
        except asyncio.CancelledError:
            # Not in a thread: the event loop is about to end.
            update(job.id, status="error", error="The server was stopped. Send the document again.")
            raise
        except (DragomanError, ServiceError) as error:
            # It is stored, so without any text of the document, and without our folder.
            message = message_of(error, request.name)
            message = message.replace(f"{request.path.parent}{os.sep}", "")
            await asyncio.to_thread(update, job.id, status="error", error=message)
        except Exception as error:
            # Without the message, which may contain text of the document.
            _log.error("a document failed: %s", type(error).__name__)
            message = "The document could not be translated because of an error of the server."
            await asyncio.to_thread(update, job.id, status="error", error=message)
        else:
            await asyncio.to_thread(
                update,
                job.id,
                status="done",
                units_done=result.units,
                units=result.units,
                characters=result.characters,
                flagged=result.flagged,
            )

    async def _translate(
        self, job: DocumentJob, request: DocumentRequest, caller: Caller
    ) -> DocumentResult:
        progress = _Progress()
        reporter = asyncio.create_task(self._report(job.id, progress))
        try:
            result = await self._context.service.translate_document(
                request, caller, progress.set_units
            )
        finally:
            reporter.cancel()
        # Only now are the characters known. Without quota, the result is deleted.
        await self._context.access.charge(caller, result.characters)
        return result

    async def _report(self, job_id: str, progress: _Progress) -> None:
        reported = (0, 0)
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            units = progress.units
            if units != reported:
                await asyncio.to_thread(
                    self._context.state.update_document,
                    job_id,
                    units_done=units[0],
                    units=units[1],
                )
                reported = units

    async def _expire_always(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRE_SECONDS)
            try:
                await asyncio.to_thread(self._expire)
            except Exception as error:
                # A full disk, for example. The next round must come, or documents stay for ever.
                _log.warning("old documents could not be deleted", exc_info=error)

    def _expire(self) -> None:
        self._context.state.expire_documents(list(self._tasks))
        oldest = time.time() - _UPLOAD_LIFE_SECONDS
        for path in self.uploads.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()


class _Progress:
    """How far a document is; set by the thread that translates, read by the event loop."""

    def __init__(self) -> None:
        self.units = (0, 0)

    def set_units(self, done: int, total: int) -> None:
        self.units = (done, total)


class Slots:
    """Lets a few documents run at once; the client with the fewest running ones is next."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def use(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn; then run."""
        await self._acquire(client)
        try:
            yield
        finally:
            self._release(client)

    async def _acquire(self, client: str) -> None:
        if self._free:
            self._free -= 1
            self._running[client] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((client, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove((client, turn))
            else:
                self._release(client)
            raise

    def _release(self, client: str) -> None:
        self._running -= Counter([client])  # Drops clients without running documents.
        # A turn that was cancelled a moment ago is still in the list.
        waiting = [waiting for waiting in self._waiting if not waiting[1].done()]
        if not waiting:
            self._free += 1
            return
        chosen = min(waiting, key=lambda turn: self._running[turn[0]])
        self._waiting.remove(chosen)
        self._running[chosen[0]] += 1
        chosen[1].set_result(None)
