"""The DeepLX API: one text in, one translation out. Its address is LibreTranslate's `/translate`.

Subtitle Edit uses the first of `alternatives` and fails if there is none, other clients use
`data`; so the best translation is in both.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.apis.charging import translate_charged
from dragoman.serving.context import Context
from dragoman.serving.interface import ErrorKind, ServiceError, TextRequest
from dragoman.serving.parameters import Parameters

DEADLINE = 20.0
"""Seconds that clients wait for an answer."""

_STATUSES: dict[ErrorKind, int] = {
    "bad_request": 400,
    "unknown_language": 400,
    "missing_pair": 400,
    "too_long": 413,
    "not_found": 404,
    "unsupported": 501,
    "key_missing": 401,
    "key_invalid": 401,
    "forbidden": 403,
    "quota": 403,
    # Subtitle Edit tries again after 429 and 503.
    "rate": 429,
    "not_ready": 503,
    "overloaded": 503,
    "internal": 500,
}


def error_response(error: ServiceError) -> Response:
    """Return an error as the clients expect it."""
    status = _STATUSES[error.kind]
    return JSONResponse({"code": status, "message": error.message}, status_code=status)


async def translate(context: Context, request: Request, parameters: Parameters) -> Response:
    """Translate one text; errors are answers of this API."""
    try:
        return await _translate(context, request, parameters)
    except ServiceError as error:
        return error_response(error)


async def _translate(context: Context, request: Request, parameters: Parameters) -> Response:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() not in ("bearer", "deepl-auth-key"):
        key = parameters.text("token") or parameters.text("api_key")
    caller = await context.access.caller(request, key.strip(), "translate", DEADLINE)
    if parameters.is_list("text"):
        raise ServiceError(
            "bad_request", "text must be a string; the address of the DeepL API ends with /v2"
        )
    text = parameters.text("text")
    source, target = parameters.text("source_lang").strip(), parameters.text("target_lang").strip()
    if not text or not target:
        raise ServiceError("bad_request", "text and target_lang are needed")
    if len(text) > context.settings.limits.characters:
        raise ServiceError(
            "too_long", f"text has more than {context.settings.limits.characters} characters"
        )
    if source.lower() == "auto":
        source = ""
    if source:
        context.service.resolve(source, target)
    else:
        context.service.check_target(target)
    (result,) = await translate_charged(context, TextRequest((text,), target, source), caller)
    return JSONResponse(
        {
            "code": 200,
            "data": result.text,
            "alternatives": [result.text],
            "source_lang": result.source.upper(),
            "target_lang": target.upper(),
            "method": "Free",
        }
    )
