"""The LibreTranslate API, and the DeepLX API, which has the same address `/translate`.

Clients send parameters in four encodings, lists of texts only as JSON. All errors are
`{"error": text}`; some clients look for words of LibreTranslate's own messages in them.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote_plus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.formats.base.folder import extensions
from dragoman.serving.apis import apertium, deeplx
from dragoman.serving.apis.charging import translate_charged
from dragoman.serving.apis.libretranslate_documents import add_document_routes
from dragoman.serving.apis.libretranslate_request import (
    Query,
    authorize,
    base_url,
    form_text,
    read_languages,
    read_query,
    refuse,
)
from dragoman.serving.apis.libretranslate_spec import specification
from dragoman.serving.context import Context
from dragoman.serving.interface import (
    ErrorKind,
    ServiceError,
    TextRequest,
    TextResult,
)
from dragoman.serving.parameters import read_parameters
from dragoman.text.languages import language_name

MAX_ALTERNATIVES = 10
# LibreTranslate copies what is inside these elements.
IGNORED_TAGS = frozenset(
    ["address", "applet", "audio", "canvas", "code", "embed", "script", "style", "time", "video"]
)

_STATUSES: dict[ErrorKind, int] = {
    "bad_request": 400,
    "unknown_language": 400,
    "missing_pair": 400,
    "too_long": 400,
    "not_found": 404,
    "unsupported": 501,
    "key_missing": 400,
    "key_invalid": 403,
    "forbidden": 403,
    # Mastodon says "quota exceeded" for every 403.
    "quota": 403,
    "rate": 429,
    "not_ready": 503,
    # After 429 or 503, Weblate does not use a server for 30 minutes.
    "overloaded": 529,
    "internal": 500,
}
# Clients compare these messages.
_MESSAGES: dict[ErrorKind, str] = {
    "key_missing": "Please contact the server operator to get an API key",
    "key_invalid": "Invalid API key",
}


def error_response(error: ServiceError) -> Response:
    """Return an error as the clients expect it."""
    message = _MESSAGES.get(error.kind, error.message)
    if error.kind == "rate" and not message.startswith("Slowdown"):
        message = f"Slowdown: {message}"
    return JSONResponse({"error": message}, status_code=_STATUSES[error.kind])


def routes(context: Context) -> APIRouter:
    """Return all routes of this API."""
    router = APIRouter(include_in_schema=False)
    _add_text_routes(router, context)
    add_document_routes(router, context)
    _add_description_routes(router, context)
    return router


def _add_text_routes(router: APIRouter, context: Context) -> None:
    limits = context.settings.limits

    # A plug-in of OmegaT uses GET.
    @router.api_route("/translate", methods=["GET", "POST"])
    async def translate(request: Request) -> Response:
        parameters = await read_parameters(request, limits)
        # Three APIs have this address. Their parameters have different names.
        if parameters.has("langpair"):
            return await apertium.translate(context, request, parameters)
        if parameters.has("text") and not parameters.has("q"):
            return await deeplx.translate(context, request, parameters)
        caller = await authorize(context, request, parameters, "translate")
        query = read_query(parameters, limits)
        source, target = read_languages(context, parameters)
        text_format = parameters.text("format").lower() or "text"
        if text_format not in ("text", "html"):
            refuse("this format is not supported; send text or html")
        is_html = text_format == "html"
        num_alternatives = parameters.integer("alternatives", 0)
        results = await translate_charged(
            context,
            TextRequest(
                texts=query.texts,
                target=target,
                source=source,
                format="html" if is_html else "text",
                num_alternatives=_limited_alternatives(num_alternatives, is_html),
                ignored_tags=IGNORED_TAGS if is_html else frozenset(),
                # In HTML, a line break is a space.
                keeps_newlines=not is_html,
            ),
            caller,
        )
        return JSONResponse(_translation(query, results, num_alternatives > 0))

    @router.post("/detect")
    async def detect(request: Request) -> Response:
        parameters = await read_parameters(request, limits)
        await authorize(context, request, parameters, "translate")
        query = read_query(parameters, limits)
        detections = await context.service.detect("\n".join(query.texts))
        # Some clients need a language of `/languages`.
        codes = {language.code for language in context.service.languages()}
        known = [detection for detection in detections if detection.language in codes]
        return JSONResponse(
            [
                {"confidence": _percent(detection.confidence), "language": detection.language}
                for detection in known or detections
            ]
        )

    @router.post("/suggest")
    async def suggest(request: Request) -> Response:
        parameters = await read_parameters(request, limits)
        caller = await authorize(context, request, parameters, "suggest")
        query = read_query(parameters, limits)
        suggestion = form_text(parameters, "s")
        if len(query.texts) != 1 or not suggestion:
            refuse("missing s parameter" if not suggestion else "q must be one string")
        source, target = read_languages(context, parameters)
        if not source:
            source = (await context.service.detect_source(query.texts[0], target)).language
        pair = context.service.resolve(source, target)
        await asyncio.to_thread(
            context.state.add_suggestion,
            caller.key_id,
            source=pair.source,
            target=pair.target,
            source_text=query.texts[0],
            machine_text="",  # Clients do not send it.
            suggestion=suggestion,
            model=context.service.version_of(pair),
        )
        return JSONResponse({"success": True})


def _add_description_routes(router: APIRouter, context: Context) -> None:
    service = context.service

    # No key is needed here, and a body is ignored.
    @router.get("/languages")
    async def languages(request: Request) -> Response:
        return JSONResponse(
            [
                {"code": language.code, "name": language.name, "targets": list(language.targets)}
                for language in service.languages()
            ]
        )

    @router.get("/frontend/settings")
    async def frontend_settings(request: Request) -> Response:
        requires_keys = context.settings.requires_keys
        target = next((pair.target for pair in service.pairs()), "en")
        # The first call imports all formats.
        file_extensions = await asyncio.to_thread(extensions)
        return JSONResponse(
            {
                "apiKeys": requires_keys,
                "charLimit": context.settings.limits.characters,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "keyRequired": requires_keys,
                "language": {
                    "source": {"code": "auto", "name": "Auto Detect"},
                    "target": {"code": target, "name": language_name(target)},
                },
                "suggestions": True,
                "supportedFilesFormat": sorted(file_extensions),
            }
        )

    @router.get("/spec")
    async def spec(request: Request) -> Response:
        return JSONResponse(specification(base_url(context, request)))

    @router.get("/health")
    async def health(request: Request) -> Response:
        if not service.is_ready:
            return JSONResponse({"status": "loading"}, status_code=503)
        return JSONResponse({"status": "ok"})

    # A PHP client posts to the root to test the connection.
    @router.post("/")
    async def root(request: Request) -> Response:
        return JSONResponse({"status": "ok"})


def _limited_alternatives(number: int, is_html: bool) -> int:
    return 0 if is_html else min(max(number, 0), MAX_ALTERNATIVES)


def _translation(
    query: Query, results: list[TextResult], with_alternatives: bool
) -> dict[str, object]:
    texts = [result.text for result in results]
    detected = [
        {"confidence": _percent(result.confidence), "language": result.source} for result in results
    ]
    alternatives = [unique_alternatives(result) for result in results]
    answer: dict[str, object]
    if query.form == "list":
        answer = {"translatedText": texts, "detectedLanguage": detected}
        return answer | ({"alternatives": alternatives} if with_alternatives else {})
    # Some clients read the detected language even if they sent a language.
    answer = {"translatedText": texts[0], "detectedLanguage": detected[0]}
    if query.form == "encoded list":
        answer["translatedText"] = quote_plus(json.dumps(texts))
    return answer | ({"alternatives": alternatives[0]} if with_alternatives else {})


def unique_alternatives(result: TextResult) -> list[str]:
    """Return other translations, without repetitions and without the best one."""
    others = dict.fromkeys(text for text in result.alternatives if text.strip())
    return [text for text in others if text != result.text]


def _percent(confidence: float) -> int:
    return round(100 * confidence)
