"""Explains translations in a process of its own, because that needs PyTorch.

The process is started with the first explanation of a run and ends with the server. A run that is
only an export has no weights for PyTorch and cannot be explained.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from pathlib import Path

from dragoman.errors import DragomanError
from dragoman.interop.folder import is_export
from dragoman.serving.interface import ServiceError
from dragoman.serving.messages import LENGTH, frame, parse, read_frame

MAX_CHARACTERS = 500
_SECONDS = 60.0
_MAX_REQUESTS = 5
"""One explanation takes seconds, so more requests at a time would wait too long."""


class Explainer:
    """Explains the translations of one run, one at a time."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._lock = asyncio.Lock()
        self._requests = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def obstacle(self) -> str:
        """Why translations cannot be explained; empty if they can."""
        if importlib.util.find_spec("torch") is None:
            return (
                "explanations need PyTorch, which is not installed on the server; install it with: "
                "pip install 'dragoman[explain]'"
            )
        if is_export(self.run):
            return "this model is an export for CTranslate2; serve its run to explain translations"
        return ""

    async def explain(self, text: str) -> str:
        """Return an HTML page that explains the translation of a sentence."""
        if self.obstacle:
            raise ServiceError("unsupported", self.obstacle)
        if len(text) > MAX_CHARACTERS:
            message = f"the text has {len(text)} characters; only {MAX_CHARACTERS} are explained"
            raise ServiceError("too_long", message)
        if self._requests >= _MAX_REQUESTS:
            raise ServiceError("overloaded", "other texts are being explained; try again later")
        self._requests += 1
        try:
            async with self._lock:
                answer = await self._answer(text)
        finally:
            self._requests -= 1
        if not isinstance(answer, str):
            raise ServiceError("bad_request", "the text could not be explained")
        return answer

    async def _answer(self, text: str) -> object:
        """Ask the process; end it if it fails or is late, or if the client has gone."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._ask(text)
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            self.close()
            raise ServiceError("internal", "the explanation could not be computed") from None
        except asyncio.CancelledError:
            # Its answer would be taken for that of the next request.
            self.close()
            raise

    async def _ask(self, text: str) -> object:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                __name__,
                str(self.run),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                process_group=0,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(frame(text))
        await stdin.drain()
        (length,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
        return parse(await stdout.readexactly(length))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process = None


def main() -> None:
    """Explain sentences from standard input until it ends."""
    from dragoman.explanation.page import render  # noqa: PLC0415  (needs PyTorch)
    from dragoman.inference.translator import Translator  # noqa: PLC0415
    from dragoman.workflow.explanation import explain  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        loaded = Translator.load(sys.argv[1], engine="pytorch")
    except DragomanError as error:
        sys.exit(f"dragoman: translations cannot be explained: {error}")
    with loaded as translator:
        while (text := read_frame(sys.stdin.buffer)) is not None:
            try:
                answer: str | None = render(explain(translator, text))
            except Exception as error:
                if not isinstance(error, DragomanError):
                    # Only the type: a message may contain text of a client.
                    sys.stderr.write(f"dragoman: an explanation failed: {type(error).__name__}\n")
                answer = None
            answers.write(frame(answer))
            answers.flush()


if __name__ == "__main__":
    main()
