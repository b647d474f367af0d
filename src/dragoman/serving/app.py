"""Builds the web application: all APIs and the page, with one way to report errors."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Scope

from dragoman import __version__
from dragoman.serving.apis import (
    apertium,
    deepl,
    deepl_documents,
    deepl_glossaries,
    libretranslate,
    native,
    page,
)
from dragoman.serving.context import Context
from dragoman.serving.interface import ErrorKind, ServiceError
from dragoman.serving.logs import RequestLog, open_traces
from dragoman.serving.metrics import Api
from dragoman.serving.middleware import CancelOnDisconnect, RefuseAmbiguous, SecurityHeaders

_log = logging.getLogger(__name__)

_KINDS: dict[int, ErrorKind] = {404: "not_found", 413: "too_long"}
_CORS_SECONDS = 20 * 24 * 3600


def build_app(context: Context) -> RequestLog:
    """Return the ASGI application of a server."""
    app = FastAPI(
        title="Dragoman",
        version=__version__,
        summary="A private translation server.",
        # `native` writes the document: only its routes are described.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # FastAPI's own traces have the messages of errors, which may contain text.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    for module in (
        page,
        native,
        deepl,
        deepl_glossaries,
        deepl_documents,
        apertium,
        libretranslate,
    ):
        app.include_router(module.routes(context))

    @app.exception_handler(ServiceError)
    async def refuse(request: Request, error: ServiceError) -> Response:
        return error_response(request)(error)

    @app.exception_handler(RequestValidationError)
    async def refuse_value(request: Request, error: RequestValidationError) -> Response:
        return error_response(request)(ServiceError("bad_request", _places(error)))

    @app.exception_handler(HTTPException)
    async def refuse_path(request: Request, error: HTTPException) -> Response:
        kind = _KINDS.get(error.status_code, "bad_request")
        message = "there is nothing at this address" if kind == "not_found" else error.detail
        response = error_response(request)(ServiceError(kind, message))
        response.status_code = error.status_code
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        # Only the type: a message may contain text of a client.
        _log.error("a request failed: %s", type(error).__name__)
        return error_response(request)(ServiceError("internal", "the server failed; see its log"))

    wrapped: ASGIApp = RefuseAmbiguous(CancelOnDisconnect(app))
    if context.settings.allowed_origins:
        wrapped = CORSMiddleware(
            wrapped,
            allow_origins=context.settings.allowed_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            max_age=_CORS_SECONDS,
        )
    wrapped = SecurityHeaders(wrapped, lambda: not context.service.is_ready)
    return RequestLog(wrapped, context.metrics, api_of, open_traces())


_ERROR_RESPONSES: dict[Api, Callable[[ServiceError], Response]] = {
    "deepl": deepl.error_response,
    "native": native.error_response,
    "apertium": apertium.error_response,
    "libretranslate": libretranslate.error_response,
    "other": libretranslate.error_response,
}


def error_response(request: Request) -> Callable[[ServiceError], Response]:
    """Return how an error looks in the API whose clients use this address."""
    return _ERROR_RESPONSES[api_of(request.scope)]


def api_of(scope: Scope) -> Api:
    """Return the API whose clients use this address."""
    path = scope["path"]
    if path.startswith(("/v2/", "/v3/")) or path in ("/v2", "/v3"):
        return "deepl"
    if path.startswith("/v1/") or path in ("/healthz", "/readyz"):
        return "native"
    if path in ("/listPairs", "/listLanguageNames") or (
        path == "/translate" and b"langpair=" in scope.get("query_string", b"")
    ):
        return "apertium"
    return "other" if path == "/" or path.startswith("/page") else "libretranslate"


def _places(error: RequestValidationError) -> str:
    """Say which fields are wrong; their values may be text of a client."""
    mistakes = []
    for mistake in error.errors():
        place = ".".join(map(str, mistake["loc"][1:])) or "the body"
        mistakes.append(f"{place}: {mistake['msg']}")
    return "; ".join(mistakes)
