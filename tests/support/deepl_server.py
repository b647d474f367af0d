"""A live server with stub engines on a free port of this machine, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest
import uvicorn

from dragoman.serving.access import Access
from dragoman.serving.app import build_app
from dragoman.serving.context import Context
from dragoman.serving.interface import ServerSettings
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models
from dragoman.serving.protocol import protocol_with
from dragoman.serving.state import State
from support.recording import Recorder
from support.serving import serving

ROOT = Path(__file__).parents[2]


class LiveServer:
    """A running server: its address, its context, and its event loop."""

    url: str
    context: Context
    models: Models
    recorder: Recorder
    loop: asyncio.AbstractEventLoop

    def run(self, coroutine):
        """Run a coroutine in the event loop of the server."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)


@contextlib.contextmanager
def live_server(folder, *runs, **settings):
    """Start a server; stop it at the end."""
    live = LiveServer()
    is_started = threading.Event()
    server: list[uvicorn.Server] = []
    failure: list[BaseException] = []

    async def main():
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        async with serving(*runs) as (service, live.models):
            options = ServerSettings(runs=tuple(runs), state=folder / "state", **settings)
            state = State(options.state)
            live.context = Context(options, service, state, Access(options, state), Metrics())
            live.loop = asyncio.get_running_loop()
            live.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            live.recorder = Recorder(build_app(live.context))
            config = uvicorn.Config(
                live.recorder,
                http=protocol_with(options.limits),
                lifespan="off",
                log_config=None,
                access_log=False,
            )
            service.is_ready = True
            server.append(uvicorn.Server(config))
            server[0].capture_signals = contextlib.nullcontext
            async with live.context.documents:
                listener.listen()
                is_started.set()
                await server[0].serve([listener])
            state.close()

    def run():
        try:
            asyncio.run(main())
        except BaseException as error:
            failure.append(error)
            is_started.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(str(ROOT / name) for name in ("src", "tests")))
        thread = threading.Thread(target=run)
        thread.start()
        assert is_started.wait(60)
        if failure:
            raise failure[0]
        try:
            yield live
        finally:
            server[0].should_exit = True
            thread.join(30)
        if failure:
            raise failure[0]
