"""Runs the server: sockets, signals, drain, reload, and several processes behind one port."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from dragoman.errors import DragomanError, ListenError
from dragoman.serving.access import Access
from dragoman.serving.app import build_app
from dragoman.serving.context import Context
from dragoman.serving.interface import ServerSettings
from dragoman.serving.metrics import Metrics, serve_metrics, stop_metrics
from dragoman.serving.models import WORKER, Models
from dragoman.serving.protocol import protocol_with
from dragoman.serving.service import Service
from dragoman.serving.state import State
from dragoman.serving.worker import WorkerSettings
from dragoman.storage.machine import available_cpus

_log = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 75
"""Longer than the usual pause of a proxy, so that the proxy closes idle connections."""
_BACKLOG = 2048
_RESTART_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LISTEN_SECONDS = 1.0
"""Connections are accepted for so long after SIGTERM: others need a moment to notice it."""

OnStarted = Callable[[str, Service], None]
"""Gets the address of the server and its service when it answers requests."""


def run_server(
    settings: ServerSettings, on_started: OnStarted, *, processes: int = 1, worker: str = WORKER
) -> None:
    """Serve until SIGTERM or SIGINT."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(settings))
        if settings.state is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-"))
            settings = replace(settings, state=Path(folder))
        if processes == 1:
            asyncio.run(_serve(settings, listener, on_started, worker))
        else:
            _supervise(settings, listener, on_started, processes, worker)


def _listen(settings: ServerSettings) -> socket.socket:
    """Bind the port, so that a port that is in use is an error before any model is loaded."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}. Choose "
            "another port with --port"
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class DrainingServer(uvicorn.Server):
    """Answers what it has accepted before it ends; SIGHUP reloads the models."""

    def __init__(self, config: uvicorn.Config, service: Service, models: Models) -> None:
        super().__init__(config)
        self.service = service
        self.models = models
        self._tasks: set[asyncio.Task[object]] = set()
        self.on_ready: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; the server is ready when it handles signals and connections."""
        await super().startup(sockets)
        self.service.is_ready = True
        self.on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in the event loop."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._drain, _LISTEN_SECONDS)
        loop.add_signal_handler(signal.SIGINT, self._drain, 0.0)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Do what the signals do."""
        self._drain(0.0)

    def _drain(self, seconds: float) -> None:
        """Listen for so long, and end when all requests are answered.

        A second signal ends the server at once.
        """
        if not self.service.is_ready:
            self.should_exit = self.force_exit = True
        self.service.is_ready = False
        asyncio.get_running_loop().call_later(seconds, self._stop_listening)

    def _stop_listening(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the connections that the kernel has accepted, then stop to listen."""
        loop = asyncio.get_running_loop()
        for listener in sockets or []:
            with contextlib.suppress(OSError):  # There are no more.
                while True:
                    connection, _ = listener.accept()
                    connection.setblocking(False)
                    task = loop.create_task(
                        loop.connect_accepted_socket(self._protocol, connection)
                    )
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self.models.reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _serve(
    settings: ServerSettings,
    listener: socket.socket,
    on_started: OnStarted,
    worker: str,
    number: int = 0,
) -> None:
    """Load the models and serve in this process."""
    assert settings.state is not None
    metrics = Metrics()
    models = Models(
        [WorkerSettings(run=str(run), threads=settings.threads) for run in settings.runs],
        batch_tokens=settings.batch_tokens,
        metrics=metrics,
        module=worker,
    )
    models.on_reload = lambda is_ok: metrics.reloaded(is_ok=is_ok)
    with contextlib.ExitStack() as stack:
        # Before the models, which take seconds: mistakes in the options are said at once.
        state = stack.enter_context(contextlib.closing(State(settings.state)))
        access = Access(settings, state)
        if settings.metrics_port:
            stack.enter_context(_serving_metrics(metrics, settings, number))
        # Without a handler, a reload that is asked for too early would end the process.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
        await models.start()
        watcher = asyncio.create_task(models.watch())
        service = Service(models, settings.limits)
        try:
            context = Context(settings, service, state, access, metrics)
            app = build_app(context)
            stack.callback(app.close)
            server = DrainingServer(_config(app, settings), service, models)
            server.on_ready = lambda: on_started(address_of(listener), service)
            async with context.documents:
                await server.serve([listener])
        finally:
            watcher.cancel()
            service.close()
            await models.close()


@contextlib.contextmanager
def _serving_metrics(metrics: Metrics, settings: ServerSettings, number: int) -> Iterator[None]:
    """Answer Prometheus; each process has a port of its own."""
    port = settings.metrics_port + number
    try:
        server = serve_metrics(metrics, settings.host, port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ListenError(
            f"cannot listen on {settings.host} port {port} for metrics: {reason}. Choose another "
            "port with --metrics-port"
        ) from None
    try:
        yield
    finally:
        stop_metrics(server)


def _config(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol_with(settings.limits),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(settings.grace_seconds),
        ws="none",
    )


def _supervise(
    settings: ServerSettings,
    listener: socket.socket,
    on_started: OnStarted,
    processes: int,
    worker: str,
) -> None:
    """Run several servers on one socket; each has its own engines, and all share the state."""
    threads = settings.threads or max(1, available_cpus() // processes)
    settings = replace(settings, threads=threads)

    def serve(number: int) -> None:
        # Only the first process says that the server has started.
        report: OnStarted = on_started if number == 0 else lambda *_: None
        asyncio.run(_serve(settings, listener, report, worker, number))

    _Supervisor(listener, serve).run(processes)


class _Supervisor:
    """Starts processes, starts one again if it ends, and passes signals on."""

    def __init__(self, listener: socket.socket, serve: Callable[[int], None]) -> None:
        self._listener = listener
        self._serve = serve
        self._children: dict[int, int] = {}
        self._restarted: set[int] = set()
        self._is_ending = False
        self._code = 0

    def run(self, processes: int) -> None:
        """Run until a signal ends all processes."""
        for signal_number in _SIGNALS:
            signal.signal(signal_number, self._forward)
        for number in range(processes):
            self._start(number)
        while self._children:
            process_id, status = os.wait()
            if process_id not in self._children:
                # The first process of a container gets the engines of a process that died.
                continue
            number = self._children.pop(process_id)
            if not self._is_ending:
                self._restart(number, os.waitstatus_to_exitcode(status))
        if self._code:
            sys.exit(self._code)

    def _restart(self, number: int, code: int) -> None:
        if code > 1 and number not in self._restarted:
            # A mistake of the operator: the process has said it.
            self._code = code
            self._forward(signal.SIGTERM, None)
            return
        _log.error("server process %d ended; it is started again", number)
        time.sleep(_RESTART_SECONDS)
        self._restarted.add(number)
        self._start(number)

    def _start(self, number: int) -> None:
        if self._is_ending:
            return
        process_id = os.fork()
        if process_id == 0:
            self._run_child(number)
        self._children[process_id] = number
        if self._is_ending:
            os.kill(process_id, signal.SIGTERM)

    def _run_child(self, number: int) -> None:
        code = 1
        try:
            # Ctrl+C goes to all processes of a group; here, only the supervisor passes it on.
            os.setpgid(0, 0)
            for signal_number in _SIGNALS:
                signal.signal(signal_number, signal.SIG_DFL)
            self._serve(number)
            code = 0
        except DragomanError as error:
            code = error.exit_code
            sys.stderr.write(f"dragoman: {error}\n")
        except Exception as error:
            # Only the type: a message may contain text of a client.
            sys.stderr.write(f"dragoman: the server failed: {type(error).__name__}\n")
        finally:
            os._exit(code)

    def _forward(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._is_ending = True
            # Else the kernel accepts connections after the last server has stopped to.
            self._listener.close()
        for process_id in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, number)
