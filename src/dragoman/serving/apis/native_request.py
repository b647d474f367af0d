"""What the endpoints of our own API share: keys, bodies, answers and errors.

The key is checked before a body is read. JSON is parsed strictly and with limits. No answer repeats
a value of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dragoman.serving.apis import native_schema as schema
from dragoman.serving.apis.deepl_request import GlossaryFinder
from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, ErrorKind, Scope, ServiceError
from dragoman.serving.parameters import parse_json, read_body
from dragoman.text.glossary import Glossary

DEADLINE = 120.0
"""Seconds that a client of this API should wait for a translation."""
_RETRY_SECONDS: dict[int, int] = {429: 60, 503: 5}
"""What `Retry-After` says."""
_MAX_MISTAKES = 3
"""Of a body; the others are not listed."""

_STATUSES: dict[ErrorKind, int] = {
    "bad_request": 400,
    "key_missing": 401,
    "key_invalid": 401,
    # Not 429: libraries repeat a request after 429, but a quota lasts until the month ends.
    "quota": 402,
    "forbidden": 403,
    # This server does not have the language or the pair; another one may.
    "unknown_language": 404,
    "missing_pair": 404,
    "not_found": 404,
    "not_ready": 409,
    "too_long": 413,
    "rate": 429,
    "internal": 500,
    "unsupported": 501,
    "overloaded": 503,
}

Body = TypeVar("Body", bound=schema.RequestBody)


def error_response(error: ServiceError) -> Response:
    """Return a refused request as JSON."""
    status = _STATUSES[error.kind]
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in _RETRY_SECONDS:
        headers["Retry-After"] = str(_RETRY_SECONDS[status])
    detail = schema.ErrorDetail(kind=error.kind, message=error.message)
    return reply(schema.ErrorResponse(error=detail), status, headers)


def reply(
    body: schema.ResponseBody, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a body as JSON."""
    return Response(body.model_dump_json(), status, headers, "application/json")


async def find_caller(context: Context, request: Request, scope: Scope) -> Caller:
    """Find out who sends a request, by its API key."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip() if scheme.lower() == "bearer" else ""
    return await context.access.caller(request, key, scope, DEADLINE)


async def find_glossary(
    context: Context,
    finder: GlossaryFinder,
    caller: Caller,
    glossary_id: str,
    source: str,
    target: str,
) -> Glossary:
    """Return the terms of a glossary that the server stores."""
    # An unknown glossary is the first mistake to report.
    await asyncio.to_thread(context.state.glossary, caller.key_id, glossary_id)
    if not source:
        raise ServiceError("bad_request", "glossary_id: a stored glossary needs source")
    return await finder.load((glossary_id,), caller, context.service.resolve(source, target))


def check_content_type(request: Request, expected: str) -> None:
    """Refuse a body of another type."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != expected:
        raise HTTPException(415, f"send the body as {expected}")


async def read(context: Context, request: Request, model: type[Body]) -> Body:
    """Read and check a JSON body."""
    check_content_type(request, "application/json")
    limits = context.settings.limits
    value = parse_json(await read_body(request, limits), limits)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ServiceError("bad_request", _mistakes(error, model)) from None


def _mistakes(error: ValidationError, model: type[schema.RequestBody]) -> str:
    """Say where a body is wrong, without its values and without names that the client invented."""
    messages = []
    details = error.errors(include_url=False, include_context=False, include_input=False)
    for detail in details[:_MAX_MISTAKES]:
        if detail["type"] == "extra_forbidden":
            messages.append(f"unknown field; expected only {', '.join(model.model_fields)}")
        else:
            place = ".".join(map(str, detail["loc"])) or "the body"
            messages.append(f"{place}: {detail['msg']}")
    return "; ".join(dict.fromkeys(messages))
