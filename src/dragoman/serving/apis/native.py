"""Our own API under `/v1`, its OpenAPI document, and the health checks."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman import __version__
from dragoman.formats.base.folder import extensions
from dragoman.serving.apis import native_schema as schema
from dragoman.serving.apis.charging import charged
from dragoman.serving.apis.deepl_request import GlossaryFinder
from dragoman.serving.apis.native_documents import add_document_routes
from dragoman.serving.apis.native_openapi import openapi_document, operation
from dragoman.serving.apis.native_request import (
    error_response,
    find_caller,
    find_glossary,
    read,
    reply,
)
from dragoman.serving.apis.native_results import to_translation, translate_sentences
from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, ServiceError, TextRequest
from dragoman.serving.logs import note
from dragoman.text.glossary import Glossary

__all__ = ["error_response", "routes"]


def routes(context: Context) -> APIRouter:
    """Return all routes of this API."""
    router = APIRouter()
    _add_text_routes(router, context)
    add_document_routes(router, context)
    _add_description_routes(router, context)

    @router.get("/v1/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(openapi_document(router, context.settings.requires_keys))

    return router


def _add_text_routes(router: APIRouter, context: Context) -> None:
    requires_key = context.settings.requires_keys
    glossaries = GlossaryFinder(context)

    @router.post(
        "/v1/translate",
        summary="Translate texts",
        response_model=schema.TranslateResponse,
        **operation(402, 404, 503, requires_key=requires_key, body=schema.TranslateRequest),
    )
    async def translate(request: Request) -> Response:
        caller = await find_caller(context, request, "translate")
        body = await read(context, request, schema.TranslateRequest)
        _check_size(context, body)
        text_request = TextRequest(
            texts=body.texts,
            target=body.target,
            source=body.source or "",
            format=body.format,
            num_alternatives=body.alternatives,
            with_alignment=body.alignment,
            glossary=await _glossary(context, glossaries, caller, body),
        )
        characters = sum(map(len, body.texts))
        async with charged(context, caller, characters):
            if body.sentences:
                translations = await translate_sentences(context.service, text_request, caller)
            else:
                results = await context.service.translate(text_request, caller)
                translations = [to_translation(result) for result in results]
        # Each text whose sentences are translated has noted its own numbers.
        note(texts=len(body.texts), characters=characters)
        return reply(
            schema.TranslateResponse(translations=tuple(translations), characters=characters)
        )

    @router.post(
        "/v1/detect",
        summary="Detect the language of a text",
        response_model=schema.DetectResponse,
        **operation(503, requires_key=requires_key, body=schema.DetectRequest),
    )
    async def detect(request: Request) -> Response:
        await find_caller(context, request, "translate")
        body = await read(context, request, schema.DetectRequest)
        detections = await context.service.detect(body.text)
        guesses = [
            schema.LanguageGuess(language=guess.language, confidence=guess.confidence)
            for guess in detections
        ]
        return reply(schema.DetectResponse(detections=tuple(guesses)))

    @router.post(
        "/v1/explain",
        summary="Explain the translation of a sentence",
        description="Shows tokens, attention and search. It needs PyTorch on the server; without "
        "it, the answer is 501 with the reason.",
        response_model=schema.ExplainResponse,
        **operation(402, 404, 501, 503, requires_key=requires_key, body=schema.ExplainRequest),
    )
    async def explain(request: Request) -> Response:
        caller = await find_caller(context, request, "translate")
        body = await read(context, request, schema.ExplainRequest)
        service = context.service
        source = body.source
        if not source:
            source = (await service.detect_source(body.text, body.target)).language
        pair = service.resolve(source, body.target)
        async with charged(context, caller, len(body.text)):
            html = await service.explain(body.text, pair.source, pair.target)
        return reply(schema.ExplainResponse(html=html))

    @router.post(
        "/v1/suggestions",
        summary="Suggest a better translation",
        description="The server stores it with the version of the model, so that a model can "
        "later be adapted to it.",
        status_code=201,
        response_model=schema.SuggestionResponse,
        **operation(403, 404, requires_key=requires_key, body=schema.SuggestionRequest),
    )
    async def suggest(request: Request) -> Response:
        caller = await find_caller(context, request, "suggest")
        body = await read(context, request, schema.SuggestionRequest)
        pair = context.service.resolve(body.source, body.target)
        suggestion_id = await asyncio.to_thread(
            context.state.add_suggestion,
            caller.key_id,
            source=pair.source,
            target=pair.target,
            source_text=body.source_text,
            machine_text=body.machine_text,
            suggestion=body.suggestion,
            model=body.model or context.service.version_of(pair),
        )
        return reply(schema.SuggestionResponse(id=suggestion_id), 201)


def _add_description_routes(router: APIRouter, context: Context) -> None:
    @router.get(
        "/v1/languages",
        summary="List languages and pairs",
        response_model=schema.LanguagesResponse,
        **operation(),
    )
    async def languages() -> Response:
        service = context.service
        return reply(
            schema.LanguagesResponse(
                languages=tuple(
                    schema.LanguageInfo(
                        code=language.code, name=language.name, targets=language.targets
                    )
                    for language in service.languages()
                ),
                pairs=tuple(
                    schema.PairInfo(
                        source=pair.source, target=pair.target, pivot=pair.pivot or None
                    )
                    for pair in service.pairs()
                ),
            )
        )

    @router.get(
        "/v1/models",
        summary="List the models and what this server can do",
        response_model=schema.ModelsResponse,
        **operation(),
    )
    async def models() -> Response:
        limits = context.settings.limits
        return reply(
            schema.ModelsResponse(
                models=tuple(
                    schema.ModelDescription(
                        name=model.name,
                        source=model.source,
                        target=model.target,
                        version=model.version,
                        engine=model.engine,
                    )
                    for model in context.service.models()
                ),
                can_explain=context.service.can_explain,
                requires_key=context.settings.requires_keys,
                document_extensions=tuple(sorted(extensions())),
                limits=schema.LimitsInfo(
                    texts=limits.texts,
                    characters=limits.characters,
                    split_characters=min(limits.characters, schema.MAX_SPLIT_CHARACTERS),
                    alternatives=schema.MAX_ALTERNATIVES,
                    upload_bytes=limits.upload_bytes,
                ),
                version=__version__,
            )
        )

    @router.get(
        "/healthz",
        summary="Whether the process works",
        response_model=schema.StatusResponse,
        **operation(),
    )
    async def healthz() -> Response:
        return reply(schema.StatusResponse(status="ok"))

    @router.get(
        "/readyz",
        summary="Whether requests can be sent to this process",
        response_model=schema.StatusResponse,
        responses={503: {"model": schema.StatusResponse, "description": "Not ready."}},
    )
    async def readyz() -> Response:
        if context.service.is_ready:
            return reply(schema.StatusResponse(status="ready"))
        return reply(schema.StatusResponse(status="not ready"), 503)


def _check_size(context: Context, body: schema.TranslateRequest) -> None:
    limits = context.settings.limits
    if len(body.texts) > limits.texts:
        raise ServiceError("too_long", f"A request may have at most {limits.texts} texts")
    limit = limits.characters
    if body.sentences:
        limit = min(limit, schema.MAX_SPLIT_CHARACTERS)
    if sum(map(len, body.texts)) > limit:
        raise ServiceError("too_long", f"The texts may have at most {limit} characters")


async def _glossary(
    context: Context, finder: GlossaryFinder, caller: Caller, body: schema.TranslateRequest
) -> Glossary | None:
    """Return the terms of the stored glossary and those in the request, which win."""
    terms: dict[str, str] = {}
    if body.glossary_id:
        stored = await find_glossary(
            context, finder, caller, body.glossary_id, body.source or "", body.target
        )
        if not body.glossary:
            return stored
        terms = dict(stored.terms)
    terms |= dict(body.glossary or ())
    return Glossary(terms) if terms else None
