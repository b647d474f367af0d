"""The LibreTranslate API: documents. The answer is a link to the translated file."""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from dragoman.serving.apis.libretranslate_request import (
    authorize,
    base_url,
    read_languages,
    refuse,
    shown_code,
)
from dragoman.serving.context import Context
from dragoman.serving.interface import ServiceError
from dragoman.serving.parameters import read_parameters

DOCUMENT_SECONDS = 600.0
"""How long a request waits for a document."""


def add_document_routes(router: APIRouter, context: Context) -> None:
    """Add the routes for documents."""
    jobs = context.documents
    limits = context.settings.limits

    @router.post("/translate_file")
    async def translate_file(request: Request) -> Response:
        parameters = await read_parameters(request, limits, jobs.uploads)
        try:
            caller = await authorize(context, request, parameters, "documents")
            upload = parameters.file("file")
            if upload is None:
                refuse("missing file; send it in a multipart form")
            source, target = read_languages(context, parameters)
            started = await jobs.start(upload, caller, target=target, source=source)
        finally:
            parameters.remove_files()
        # A document that takes longer is ready when the link is opened.
        job = await jobs.wait(started.id, started.secret, seconds=DOCUMENT_SECONDS)
        if job.status == "error":
            raise ServiceError("bad_request", job.error)
        # The link works without a key, so it has its own secret.
        name = quote(_result_name(job.name, target), safe="")
        link = f"{base_url(context, request)}/download_file/{started.id}.{started.secret}/{name}"
        return JSONResponse({"translatedFileUrl": link})

    @router.get("/download_file/{token}/{name}")
    async def download_file(request: Request) -> Response:
        job_id, _, secret = str(request.path_params["token"]).partition(".")
        job = await jobs.wait(job_id, secret, seconds=DOCUMENT_SECONDS)
        if job.status == "error":
            raise ServiceError("bad_request", job.error)
        if job.status != "done":
            raise ServiceError("not_ready", "The document is not translated yet; try again later")
        # No type that a browser would show: the content is the client's.
        return FileResponse(
            job.output,
            media_type="application/octet-stream",
            filename=_result_name(job.name, job.target),
        )


def _result_name(name: str, target: str) -> str:
    path = PurePath(name)
    return f"{path.stem}_{shown_code(target)}{path.suffix}"
