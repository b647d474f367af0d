"""Documents in our own API: a client uploads one, asks for its status, and fetches the result."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from dragoman.serving.apis import native_schema as schema
from dragoman.serving.apis.deepl_request import GlossaryFinder
from dragoman.serving.apis.native_openapi import operation
from dragoman.serving.apis.native_request import (
    check_content_type,
    find_caller,
    find_glossary,
    reply,
)
from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, ServiceError
from dragoman.serving.parameters import Parameters, read_parameters
from dragoman.serving.stores.documents import DocumentJob

_FIELDS = {"target", "source", "glossary_id"}


def add_document_routes(router: APIRouter, context: Context) -> None:
    """Add the routes for documents."""
    requires_key = context.settings.requires_keys
    glossaries = GlossaryFinder(context)

    @router.post(
        "/v1/documents",
        summary="Translate a document",
        description="The server translates the document in the background. Status and result "
        "are kept for 30 minutes after the last change.",
        status_code=202,
        response_model=schema.DocumentCreated,
        **operation(404, requires_key=requires_key, is_upload=True),
    )
    async def upload(request: Request) -> Response:
        caller = await find_caller(context, request, "documents")
        check_content_type(request, "multipart/form-data")
        parameters = await read_parameters(
            request, context.settings.limits, context.documents.uploads
        )
        try:
            job = await _start(context, glossaries, caller, parameters)
        finally:
            parameters.remove_files()
        return reply(schema.DocumentCreated(id=job.id, secret=job.secret), 202)

    @router.get(
        "/v1/documents/{document_id}",
        summary="Show how far a document is",
        response_model=schema.DocumentStatus,
        **operation(requires_key=requires_key, has_document=True),
    )
    async def status(request: Request) -> Response:
        job = await _find(context, request)
        is_done = job.status == "done"
        share = job.units_done / job.units if job.units else 0.0
        return reply(
            schema.DocumentStatus(
                id=job.id,
                status=job.status,
                progress=1.0 if is_done else share,
                units=job.units if is_done else job.units or None,
                characters=job.characters if is_done else None,
                flagged=job.flagged if is_done else None,
                message=job.error or None,
            )
        )

    @router.get(
        "/v1/documents/{document_id}/result",
        summary="Download a translated document",
        response_class=FileResponse,
        **operation(409, requires_key=requires_key, has_document=True, has_file=True),
    )
    async def result(request: Request) -> Response:
        job = await _find(context, request)
        if job.status == "error":
            raise ServiceError("not_found", job.error)
        if job.status != "done":
            raise ServiceError("not_ready", "The document is not translated yet.")
        # No type that a browser would show: the content is the client's.
        return FileResponse(
            job.output, media_type="application/octet-stream", filename=job.output.name
        )


async def _start(
    context: Context, glossaries: GlossaryFinder, caller: Caller, parameters: Parameters
) -> DocumentJob:
    if parameters.form.keys() - _FIELDS or parameters.files.keys() - {"file"}:
        raise ServiceError(
            "bad_request", f"unknown field; expected only file, {', '.join(sorted(_FIELDS))}"
        )
    file = parameters.file("file")
    if file is None:
        raise ServiceError("bad_request", "file: send the document in a multipart form")
    source, target = parameters.text("source"), parameters.text("target")
    if not target:
        raise ServiceError("bad_request", "target: send the code of a language")
    if source:
        context.service.resolve(source, target)
    else:
        context.service.check_target(target)
    glossary = None
    glossary_id = parameters.text("glossary_id")
    if glossary_id:
        glossary = await find_glossary(context, glossaries, caller, glossary_id, source, target)
    return await context.documents.start(
        file, caller, target=target, source=source, glossary=glossary
    )


async def _find(context: Context, request: Request) -> DocumentJob:
    caller = await find_caller(context, request, "documents")
    secret = request.headers.get("document-secret", "")
    if not secret:
        raise ServiceError("bad_request", "send the header Document-Secret")
    return context.documents.find(request.path_params["document_id"], secret, caller.key_id)
