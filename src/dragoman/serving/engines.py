"""Starts, watches and reloads the engine processes; finds the model of a language pair.

Each model has one engine process and one queue. If an engine dies it is started again, and its
batches are queued again. A reload starts the new engine first; requests that began with the old one
finish with it, and then it ends. If the new model cannot be loaded, the old one keeps serving.
If an engine that is started again finds another model in its folder, requests begin again with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from dragoman.artifact import resolve_model
from dragoman.documents.methods import SegmentRequest
from dragoman.errors import ArtifactError, DragomanError
from dragoman.inference.joining import Translation
from dragoman.serving.interface import ServiceError
from dragoman.serving.messages import (
    LENGTH,
    MAX_BYTES,
    EngineInfo,
    batch_message,
    parse,
    read_answer,
)
from dragoman.serving.queue import BatchQueue, EngineDiedError, QueueMetrics
from dragoman.serving.worker import WorkerSettings

_log = logging.getLogger(__name__)

_RESTART_SECONDS = (0.0, 0.2, 1.0, 5.0)
"""Pauses before the engine is started again; the last one repeats."""
_STOP_SECONDS = 5.0


class ModelChangedError(ServiceError):
    """The engine of this version has ended, and another version is used now."""

    def __init__(self) -> None:
        super().__init__("internal", "the model was replaced; try again")


class EngineProcess:
    """A child process with one model."""

    def __init__(self, process: asyncio.subprocess.Process, info: EngineInfo) -> None:
        self.process = process
        self.info = info
        self._number = 0
        self._pending: dict[int, asyncio.Future[list[Translation]]] = {}
        self.ended: asyncio.Task[None] = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, settings: WorkerSettings, module: str) -> EngineProcess:
        """Start a process and wait until its model is loaded."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            settings.model_dump_json(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # A signal for the server's process group must not end the engines before the server.
            process_group=0,
            limit=1 << 20,
        )
        try:
            info = EngineInfo.model_validate(await _read_frame(process.stdout))
        except asyncio.IncompleteReadError:
            code = await process.wait()
            raise ArtifactError(
                f"the engine of {settings.run!r} ended with code {code} before its model was loaded"
            ) from None
        except ValueError:
            # Another version of Dragoman, for example, that was installed meanwhile.
            _kill(process)
            await process.wait()
            raise ArtifactError(
                f"the engine of {settings.run!r} did not describe its model as expected; if "
                "Dragoman was updated, start the server again"
            ) from None
        except BaseException:
            _kill(process)
            raise
        if info.error:
            await process.wait()
            raise ArtifactError(info.error)
        return cls(process, info)

    async def translate(self, request: SegmentRequest) -> list[Translation]:
        """Translate a batch."""
        if self.ended.done():
            raise EngineDiedError
        self._number += 1
        number = self._number
        answer: asyncio.Future[list[Translation]] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        stdin = self.process.stdin
        assert stdin is not None
        try:
            stdin.write(batch_message(number, request))
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            self._pending.pop(number, None)
            raise EngineDiedError from None
        try:
            return await answer
        finally:
            self._pending.pop(number, None)

    async def _read(self) -> None:
        """Give each answer to its batch, until the process ends."""
        try:
            while True:
                number, answers, reason = read_answer(await _read_frame(self.process.stdout))
                future = self._pending.get(number)
                if future is None or future.done():
                    continue
                if reason:
                    _log.error("the engine could not translate a batch: %s", reason)
                    message = "the engine could not translate this text"
                    future.set_exception(ServiceError("internal", message))
                else:
                    future.set_result(answers)
        except (asyncio.IncompleteReadError, ValueError, ConnectionResetError):
            pass
        finally:
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(EngineDiedError())
            _kill(self.process)

    async def stop(self) -> None:
        """End the process; batches that it has are finished first."""
        stdin = self.process.stdin
        if stdin is not None:
            stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.ended), _STOP_SECONDS)
        _kill(self.process)
        await self.process.wait()


async def _read_frame(stream: asyncio.StreamReader | None) -> object:
    assert stream is not None
    (length,) = LENGTH.unpack(await stream.readexactly(LENGTH.size))
    if length > MAX_BYTES:
        raise ValueError("the message of an engine is too long")
    return parse(await stream.readexactly(length))


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


class ModelVersion:
    """One version of a model: its engine, which is started again if it dies, and its queue."""

    def __init__(
        self,
        settings: WorkerSettings,
        process: EngineProcess,
        batch_tokens: int,
        metrics: QueueMetrics | None,
        module: str,
    ) -> None:
        self.settings = settings
        self.info = process.info
        self.queue = BatchQueue(
            self._run, slots=process.info.slots, batch_tokens=batch_tokens, metrics=metrics
        )
        self.restarts = 0
        self.state: Fingerprint = ()
        """Of the folder, before the model was loaded."""
        self.on_changed: Callable[[ModelVersion, EngineProcess], None] = lambda *_: None
        """Gets the new engine if the folder has another model when the engine is started again."""
        self._module = module
        self._process = process
        self._users = 0
        self._is_retired = False
        self._starting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        process.ended.add_done_callback(self._revive)

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[ModelVersion]:
        """Keep the engine alive while a request uses it."""
        self._users += 1
        try:
            yield self
        finally:
            self._users -= 1
            self._close_if_unused()

    def retire(self) -> None:
        """End the engine when its last request is answered."""
        self._is_retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_retired and not self._users and self._closing is None:
            self._closing = asyncio.create_task(self.close())

    @property
    def is_closed(self) -> bool:
        """Whether the engine has ended."""
        return self._closing is not None and self._closing.done()

    async def close(self) -> None:
        """End the engine."""
        self._is_retired = True
        if self._starting is not None:
            self._starting.cancel()
        await self._process.stop()

    @property
    def process_id(self) -> int:
        """The process id of the engine."""
        return self._process.process.pid

    async def _run(self, request: SegmentRequest) -> Sequence[Translation]:
        """Translate a batch; wait for the engine if it is being started again."""
        while self._process.ended.done():
            self._revive()
            if self._is_retired or self._starting is None:
                raise ModelChangedError
            await asyncio.shield(self._starting)
        return await self._process.translate(request)

    def _revive(self, _: object = None) -> None:
        """Start the engine again at once, so that the next request does not wait for it."""
        if not self._is_retired and (self._starting is None or self._starting.done()):
            self._starting = asyncio.get_running_loop().create_task(self._start_again())

    async def _start_again(self) -> None:
        for attempt in range(1000):
            await asyncio.sleep(_RESTART_SECONDS[min(attempt, len(_RESTART_SECONDS) - 1)])
            self.restarts += 1
            try:
                process = await EngineProcess.start(self.settings, self._module)
                await self._check_pair(process)
            except (ArtifactError, OSError) as error:
                _log.error("the engine could not be started again: %s", error)
                continue
            _log.warning("the engine of %s was started again", self.info.name)
            if self.queue.metrics is not None:
                self.queue.metrics.engine_restarted()
            if process.info == self.info:
                self._process = process
                process.ended.add_done_callback(self._revive)
            else:
                # What this version has begun must not be finished by another one.
                self.on_changed(self, process)
            return

    async def _check_pair(self, process: EngineProcess) -> None:
        info = process.info
        if (info.source, info.target) != (self.info.source, self.info.target):
            await process.stop()
            raise ArtifactError(f"the new model translates from {info.source} to {info.target}")


Fingerprint = tuple[str, ...]


def fingerprint(run: Path) -> Fingerprint:
    """Describe which model a folder holds, so that a change of `current` or of files is noticed.

    A remote folder is fetched: from a coroutine, call it with `asyncio.to_thread`.
    """
    real = run.resolve()
    # It is reported when the model is loaded; a remote folder may be out of reach for a moment.
    with contextlib.suppress(DragomanError, OSError):
        real = resolve_model(run).resolve()
    names = ("model.safetensors", "model.bin", "ctranslate2/model.bin", "card.json")
    parts = [str(real)]
    for name in names:
        with contextlib.suppress(OSError):
            status = os.stat(real / name)
            parts.append(f"{name} {status.st_size} {status.st_mtime_ns} {status.st_ino}")
    return tuple(parts)
