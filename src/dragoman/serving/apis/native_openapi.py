"""The OpenAPI document of our own API."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from dragoman import __version__
from dragoman.serving.apis import native_schema as schema

_REFERENCE = "#/components/schemas/{model}"
_ABOUT = """\
Translates texts and documents with the models of this server. Nothing leaves the server.

If the server requires keys, send `Authorization: Bearer KEY`. Every error has the body
`{"error": {"kind": ..., "message": ...}}`. Fields that are not listed here are refused.
"""
_ERRORS = {
    400: "The body or a header is not valid.",
    401: "The API key is missing or wrong.",
    402: "The key has no characters left this month.",
    403: "The key may not do this.",
    404: "There is no such thing, or no model for these languages.",
    409: "The result is not ready.",
    413: "The request is larger than the server accepts.",
    415: "The content type of the body is not supported.",
    429: "Too many requests; try again after `Retry-After` seconds.",
    500: "The server made a mistake.",
    501: "The server was not started with what this needs.",
    503: "The server is overloaded or not ready; try again after `Retry-After` seconds.",
}
_BODY_ERRORS = (400, 413, 415, 429)
_DOCUMENT_ERRORS = (400, 404, 429)
_KEY_ERRORS = (401, 403)

_DOCUMENT_PARAMETERS = [
    {
        "name": "document_id",
        "in": "path",
        "required": True,
        "description": "The `id` of the uploaded document.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 100},
    },
    {
        "name": "Document-Secret",
        "in": "header",
        "required": True,
        "description": "The `secret` of the uploaded document.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[\\w-]+$"},
    },
]
_UPLOAD: dict[str, Any] = {
    "type": "object",
    "required": ["file", "target"],
    "additionalProperties": False,
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "description": "The document. The extension of its name says its format.",
        },
        "target": {"type": "string", "description": "The language of the result."},
        "source": {
            "type": "string",
            "description": "The language of the document; detected if missing.",
        },
        "glossary_id": {"type": "string", "description": "A glossary that the server stores."},
    },
}


def operation(
    *errors: int,
    requires_key: bool = False,
    body: type[schema.RequestBody] | None = None,
    is_upload: bool = False,
    has_document: bool = False,
    has_file: bool = False,
) -> dict[str, Any]:
    """Return the arguments of a route that only the document uses."""
    extra: dict[str, Any] = {}
    statuses = set(errors)
    if requires_key:
        extra["security"] = [{"key": []}]
        statuses.update(_KEY_ERRORS)
    if body is not None:
        content = {"schema": {"$ref": _REFERENCE.format(model=body.__name__)}}
        extra["requestBody"] = {"required": True, "content": {"application/json": content}}
        statuses.update(_BODY_ERRORS)
    if is_upload:
        content = {"schema": _UPLOAD}
        extra["requestBody"] = {"required": True, "content": {"multipart/form-data": content}}
        statuses.update(_BODY_ERRORS)
    if has_document:
        extra["parameters"] = _DOCUMENT_PARAMETERS
        statuses.update(_DOCUMENT_ERRORS)
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": schema.ErrorResponse, "description": _ERRORS[status]}
        for status in sorted(statuses)
    }
    if has_file:
        binary = {"schema": {"type": "string", "format": "binary"}}
        responses[200] = {
            "description": "The document in its own format.",
            "content": {"application/octet-stream": binary},
        }
    return {"responses": responses, "openapi_extra": extra}


def openapi_document(router: APIRouter, requires_keys: bool) -> dict[str, Any]:
    """Return the document of all routes that are in the schema."""
    document = get_openapi(
        title="Dragoman", version=__version__, description=_ABOUT, routes=router.routes
    )
    models = (
        schema.TranslateRequest,
        schema.DetectRequest,
        schema.ExplainRequest,
        schema.SuggestionRequest,
    )
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE
    )
    components = document.setdefault("components", {})
    components["schemas"] |= definitions["$defs"]
    if requires_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document
