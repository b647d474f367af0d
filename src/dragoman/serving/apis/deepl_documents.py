"""The DeepL API: documents. A client uploads one, asks for its status, and fetches the result."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from dragoman.serving.apis.deepl_request import (
    GlossaryFinder,
    authorize,
    read_languages,
    refuse,
)
from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, ServiceError
from dragoman.serving.parameters import Parameters
from dragoman.serving.stores.documents import DocumentJob

_WAIT_SECONDS = 2.0
"""The official clients ask again after 5 seconds, so a short wait for the end saves most of them.
deepl-node waits 5 seconds for an answer."""


def routes(context: Context) -> APIRouter:
    """Return the routes for documents."""
    api = _Documents(context)
    router = APIRouter(include_in_schema=False)
    path = "/v2/document"
    router.add_api_route(path, api.upload, methods=["POST"])
    path += "/{document_id}"
    router.add_api_route(path, api.status, methods=["GET", "POST"])
    router.add_api_route(f"{path}/result", api.result, methods=["GET", "POST"])
    return router


class _Documents:
    """The endpoints."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._jobs = context.documents
        self._glossaries = GlossaryFinder(context)

    async def upload(self, request: Request) -> Response:
        caller, parameters = await authorize(
            self._context, request, "documents", self._jobs.uploads
        )
        try:
            job = await self._start(caller, parameters)
        finally:
            parameters.remove_files()
        return JSONResponse({"document_id": job.id, "document_key": job.secret})

    async def _start(self, caller: Caller, parameters: Parameters) -> DocumentJob:
        file = parameters.file("file")
        if file is None:
            refuse("file is missing. Send the document in a multipart form.")
        source, target = read_languages(self._context, parameters)
        # The content type may be missing or wrong, so only the name says the format.
        name = parameters.text("filename") or file.name
        output_format = parameters.text("output_format").lower().removeprefix(".")
        if output_format not in ("", Path(name).suffix.lower().removeprefix(".")):
            refuse("output_format must be the format of the document; it cannot be converted.")
        glossary = await self._glossaries.find(parameters, caller)
        return await self._jobs.start(
            file, caller, target=target, source=source, glossary=glossary, name=name
        )

    async def status(self, request: Request, document_id: str) -> Response:
        caller, parameters = await authorize(self._context, request, "documents")
        key = parameters.text("document_key")
        job = await self._jobs.wait(document_id, key, caller.key_id, _WAIT_SECONDS)
        answer: dict[str, str | int] = {"document_id": job.id, "status": job.status}
        if job.status == "translating" and job.units_done:
            answer["seconds_remaining"] = _seconds_remaining(job)
        elif job.status == "done":
            answer["billed_characters"] = job.characters
        elif job.status == "error":
            answer["error_message"] = job.error
        return JSONResponse(answer)

    async def result(self, request: Request, document_id: str) -> Response:
        caller, parameters = await authorize(self._context, request, "documents")
        job = self._jobs.find(document_id, parameters.text("document_key"), caller.key_id)
        if job.status == "error":
            refuse(job.error)
        if job.status != "done":
            raise ServiceError("not_ready", "The document is not translated yet.")
        # No type that a browser would show: the content is the client's.
        return FileResponse(
            job.output, media_type="application/octet-stream", filename=job.output.name
        )


def _seconds_remaining(job: DocumentJob) -> int:
    elapsed = (datetime.now(UTC) - job.created).total_seconds()
    return max(1, round(elapsed / job.units_done * (job.units - job.units_done)))
