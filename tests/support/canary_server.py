"""A small server whose handlers fail in many ways, each with the client's text in the error.

Arguments: the folder of the state, the file for spans. Prints the port of the server and the port
of the metrics; ends when its input is closed.
"""

import asyncio
import gc
import logging
import socket
import sys
import threading
import warnings
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from opentelemetry.sdk.trace.export import ConsoleSpanExporter

from dragoman.serving.access import Access
from dragoman.serving.interface import ServerSettings, ServiceError
from dragoman.serving.logs import RequestLog, configure_logs, note
from dragoman.serving.metrics import Metrics, serve_metrics
from dragoman.serving.state import State
from dragoman.serving.traces import Traces


class BadFinalizer:
    def __init__(self, text):
        self.text = text

    def __del__(self):
        raise ValueError(self.text)


def raise_with_causes(text):
    try:
        raise KeyError(text)
    except KeyError as error:
        raise FileNotFoundError(2, text, text) from error


async def fail_in_background(text):
    raise ValueError(text)


def fail_in_thread(text):
    raise ValueError(text)


async def answer(access, state, body):
    """Do what the request asks for; most of it goes wrong."""
    text, job = body["text"], body["job"]
    if job == "causes":
        raise_with_causes(text)
    if job == "task":
        task = asyncio.create_task(fail_in_background(text))
        await asyncio.sleep(0.01)
        del task
        gc.collect()
    if job == "thread":
        thread = threading.Thread(target=fail_in_thread, args=(text,), name=text)
        thread.start()
        thread.join()
    if job == "finalizer":
        BadFinalizer(text)
    if job == "library":
        logging.getLogger("some_library").error(f"cannot read {text}")
        logging.getLogger("some_library").error("cannot read %s", text)
    if job == "glossary":
        state.glossary("", text)
    if job == "slow":
        await asyncio.sleep(0.5)
    note(texts=1, model="v1")
    return text.upper()


def build_app(state):
    access = Access(ServerSettings(runs=(), requires_keys=True), state)
    off = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
    app = FastAPI(telemetry=off)

    @app.post("/translate/{name}")
    async def translate(request: Request, name: str):
        body = await request.json()
        caller = await access.caller(request, body.get("key", ""), "translate", 5.0)
        await access.charge(caller, len(body["text"]))
        return JSONResponse({"text": await answer(access, state, body)})

    @app.exception_handler(ServiceError)
    async def refuse(request, error):
        return JSONResponse({"error": error.message}, 400)

    @app.exception_handler(Exception)
    async def fail(request, error):
        return JSONResponse({"error": "internal"}, 500)

    return app


def main():
    warnings.simplefilter("ignore")
    configure_logs()
    state = State(Path(sys.argv[1]))
    metrics = Metrics()
    with open(sys.argv[2], "w") as spans:
        traces = Traces(ConsoleSpanExporter(out=spans))
        app = RequestLog(build_app(state), metrics, lambda scope: "native", traces)
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        metrics_server = serve_metrics(metrics, "127.0.0.1", 0)
        print(listener.getsockname()[1], metrics_server.server_port, flush=True)
        sys.stdin.read()
        server.should_exit = True
        thread.join()
        traces.close()
    state.close()


if __name__ == "__main__":
    main()
