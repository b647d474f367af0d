"""The API of Apertium APy, which OmegaT and Weblate use without a plug-in.

OmegaT sends the language pair with an unescaped `|`. Codes have underscores (`zh_Hans`), as Weblate
compares them. `/translate` is also an address of LibreTranslate; a request with the parameter
`langpair` comes here.
"""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.apis.charging import translate_charged
from dragoman.serving.context import Context
from dragoman.serving.interface import ErrorKind, ServiceError, TextRequest
from dragoman.serving.parameters import Parameters, read_parameters

DEADLINE = 20.0
"""Seconds that Weblate waits for an answer."""

_STATUSES: dict[ErrorKind, int] = {
    "bad_request": 400,
    "unknown_language": 400,
    "missing_pair": 400,
    "too_long": 400,
    "not_found": 404,
    "unsupported": 501,
    # Weblate cannot send a key. After 403, it would not use the server for 30 minutes.
    "key_missing": 400,
    "key_invalid": 403,
    "forbidden": 403,
    "quota": 403,
    "rate": 429,
    "not_ready": 503,
    # After 429 or 503, Weblate does not use a server for 30 minutes.
    "overloaded": 529,
    "internal": 500,
}
_REASONS = {529: "Overloaded"}


def error_response(error: ServiceError) -> Response:
    """Return an error in the form of APy, with the fields that OmegaT and Weblate read."""
    status = _STATUSES[error.kind]
    return JSONResponse(
        {
            "status": "error",
            "code": status,
            "message": _REASONS.get(status) or HTTPStatus(status).phrase,
            "explanation": error.message,
            "responseStatus": status,
            "responseDetails": error.message,
            "responseData": None,
        },
        status_code=status,
    )


def routes(context: Context) -> APIRouter:
    """Return the routes of this API except `/translate`, which it shares with LibreTranslate."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/listPairs", methods=["GET", "POST"])
    async def list_pairs(request: Request) -> Response:
        return _answer(
            [
                {
                    "sourceLanguage": pair.source.replace("-", "_"),
                    "targetLanguage": pair.target.replace("-", "_"),
                }
                for pair in context.service.pairs()
            ]
        )

    @router.api_route("/listLanguageNames", methods=["GET", "POST"])
    async def list_language_names(request: Request) -> Response:
        try:
            parameters = await read_parameters(request, context.settings.limits)
            # Names in other languages than English do not exist here.
            wanted = parameters.text("languages").split()
        except ServiceError as error:
            return error_response(error)
        names = {
            language.code.replace("-", "_"): language.name
            for language in context.service.languages()
        }
        return JSONResponse(
            {code: name for code, name in names.items() if code in wanted or not wanted}
        )

    return router


async def translate(context: Context, request: Request, parameters: Parameters) -> Response:
    """Translate one text; errors are answers of this API."""
    try:
        return await _translate(context, request, parameters)
    except ServiceError as error:
        return error_response(error)


async def _translate(context: Context, request: Request, parameters: Parameters) -> Response:
    key = parameters.text("key")
    # A client without a key may send the word null.
    key = "" if key == "null" else key
    caller = await context.access.caller(request, key, "translate", DEADLINE)
    codes = [code.strip() for code in parameters.text("langpair").split("|")]
    if len(codes) != 2 or not all(codes):
        raise ServiceError("bad_request", "langpair must be two languages, for example en|de")
    text = parameters.text("q")
    if not text:
        raise ServiceError("bad_request", "q is missing; send the text")
    if len(text) > context.settings.limits.characters:
        raise ServiceError(
            "too_long", f"q has more than {context.settings.limits.characters} characters"
        )
    source, target = codes
    context.service.resolve(source, target)
    is_html = (parameters.text("format") or parameters.text("deformat")).lower() == "html"
    (result,) = await translate_charged(
        context,
        TextRequest(
            (text,),
            target,
            source,
            format="html" if is_html else "text",
            keeps_newlines=not is_html,
        ),
        caller,
    )
    return _answer({"translatedText": result.text})


def _answer(data: object) -> Response:
    return JSONResponse({"responseData": data, "responseDetails": None, "responseStatus": 200})
