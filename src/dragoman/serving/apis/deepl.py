"""The DeepL API: texts, languages and usage.

The official clients, Weblate and Subtitle Edit send the same parameters as JSON or as a form. All
errors are `{"message": text}`: with any other body, the official clients raise a wrong exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.apis.charging import translate_charged
from dragoman.serving.apis.deepl_request import (
    GlossaryFinder,
    authorize,
    read_languages,
    refuse,
)
from dragoman.serving.context import Context
from dragoman.serving.interface import (
    ErrorKind,
    Language,
    Scope,
    ServiceError,
    TextFormat,
    TextRequest,
    TextResult,
)
from dragoman.serving.parameters import Parameters
from dragoman.text.languages import base_language, language_name

UNLIMITED = 10**12
"""The official clients read a limit of 0 as a limit that was reached."""

_STATUSES: dict[ErrorKind, int] = {
    "bad_request": 400,
    "unknown_language": 400,
    "missing_pair": 400,
    "too_long": 413,
    "not_found": 404,
    "unsupported": 404,
    # The official clients do not expect 401.
    "key_missing": 403,
    "key_invalid": 403,
    "forbidden": 403,
    "quota": 456,
    "rate": 429,
    # The official clients try again after 503 and 529. Weblate does not use a server for 30 minutes
    # after 503. `not_ready` concerns documents only, which Weblate never sends.
    "not_ready": 503,
    "overloaded": 529,
    "internal": 500,
}
# The official clients refuse the targets EN and PT; they expect these.
_VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
_FORMATS: dict[str, TextFormat] = {"": "text", "xml": "xml", "html": "html"}
_SENTENCES = ("0", "1", "nonewlines")
# `formality` is missing: with it, Weblate offers formal and informal variants.
_FEATURES = {
    "translate_text": ("auto_detection", "glossary", "tag_handling"),
    "translate_document": ("auto_detection", "glossary"),
    "glossary": (),
}
_SCOPES: dict[str, Scope] = {
    "translate_text": "translate",
    "translate_document": "documents",
    "glossary": "glossaries",
}
_OTHER_RESOURCES = ("write", "voice", "style_rules")


def error_response(error: ServiceError) -> Response:
    """Return an error as the clients expect it."""
    return JSONResponse({"message": error.message}, status_code=_STATUSES[error.kind])


def routes(context: Context) -> APIRouter:
    """Return the routes for texts, languages and usage."""
    api = _Texts(context)
    router = APIRouter(include_in_schema=False)
    both = ["GET", "POST"]
    router.add_api_route("/v2/translate", api.translate, methods=["POST"])
    router.add_api_route("/v2/languages", api.languages_v2, methods=both)
    router.add_api_route("/v3/languages", api.languages_v3, methods=["GET"])
    router.add_api_route("/v2/glossary-language-pairs", api.glossary_pairs, methods=["GET"])
    router.add_api_route("/v2/usage", api.usage, methods=both)
    # Weblate asks for `write` if a string already has a translation, and goes on without it.
    for path in ("/v2/write/{name}", "/v3/style_rules", "/v3/translation_memories"):
        router.add_api_route(path, api.missing, methods=both)
    return router


class _Texts:
    """The endpoints."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._glossaries = GlossaryFinder(context)

    async def translate(self, request: Request) -> Response:
        caller, parameters = await authorize(self._context, request, "translate")
        text_request = _read_request(self._context, parameters)
        glossary = await self._glossaries.find(parameters, caller)
        results = await translate_charged(
            self._context, replace(text_request, glossary=glossary), caller
        )
        return JSONResponse(
            {"translations": [_translation(result, parameters) for result in results]}
        )

    async def languages_v2(self, request: Request) -> Response:
        _, parameters = await authorize(self._context, request, "translate")
        kind = parameters.text("type") or "source"
        if kind == "source":
            entries = [entry for entry in _entries(self._context) if entry.is_source]
        elif kind == "target":
            entries = [entry for entry in _entries(self._context) if entry.is_target]
        else:
            refuse("type must be source or target.")
        formality = {"supports_formality": False} if kind == "target" else {}
        return JSONResponse(
            # Weblate 5 needs upper case.
            [{"language": entry.code.upper(), "name": entry.name} | formality for entry in entries]
        )

    async def languages_v3(self, request: Request) -> Response:
        caller, parameters = await authorize(self._context, request, "translate")
        resource = parameters.text("resource") or "translate_text"
        if resource not in (*_FEATURES, *_OTHER_RESOURCES):
            refuse(f"resource must be one of: {', '.join((*_FEATURES, *_OTHER_RESOURCES))}.")
        # Weblate does not use a server for 30 minutes after a request that its key does not allow.
        if resource in _OTHER_RESOURCES or _SCOPES[resource] not in caller.scopes:
            return JSONResponse([])
        features = {feature: {"status": "stable"} for feature in _FEATURES[resource]}
        return JSONResponse(
            [
                {
                    "lang": entry.code,
                    "name": entry.name,
                    "usable_as_source": entry.is_source,
                    "usable_as_target": entry.is_target,
                    "status": "stable",
                    "features": features,
                }
                for entry in _entries(self._context)
            ]
        )

    async def glossary_pairs(self, request: Request) -> Response:
        caller, _ = await authorize(self._context, request, "translate")
        pairs = {
            (base_language(pair.source), base_language(pair.target))
            for pair in self._context.service.pairs()
            if "glossaries" in caller.scopes
        }
        languages = [
            {"source_lang": source, "target_lang": target} for source, target in sorted(pairs)
        ]
        return JSONResponse({"supported_languages": languages})

    async def usage(self, request: Request) -> Response:
        caller, _ = await authorize(self._context, request, "translate")
        used = self._context.state.usage(caller.key_id)
        return JSONResponse(
            {"character_count": used.characters, "character_limit": used.limit or UNLIMITED}
        )

    async def missing(self, request: Request) -> Response:
        await authorize(self._context, request, "translate")
        raise ServiceError("not_found", "This server does not offer this; it only translates.")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the lists of languages."""

    code: str
    name: str
    is_source: bool
    is_target: bool


def _entries(context: Context) -> list[_Entry]:
    """List all languages and their variants, each code once, sorted by code."""
    targets = {pair.target for pair in context.service.pairs()}
    entries: dict[str, _Entry] = {}
    for language in context.service.languages():
        for entry in _with_variants(language, language.code in targets):
            same = entries.get(entry.code, entry)
            entries[entry.code] = replace(
                same,
                is_source=same.is_source or entry.is_source,
                is_target=same.is_target or entry.is_target,
            )
    return [entries[code] for code in sorted(entries)]


def _with_variants(language: Language, is_target: bool) -> Iterator[_Entry]:
    is_source = bool(language.targets)
    yield _Entry(language.code, language.name, is_source, is_target)
    base = base_language(language.code)
    if base != language.code and is_source:
        # The official clients send the source language without region and script.
        yield _Entry(base, language_name(base), is_source=True, is_target=False)
    if is_target:
        for code in _VARIANTS.get(language.code, ()):
            yield _Entry(code, language_name(code), is_source=False, is_target=True)


def _read_request(context: Context, parameters: Parameters) -> TextRequest:
    texts = parameters.texts("text")
    if not texts:
        refuse("text is missing. Send at least one text.")
    source, target = read_languages(context, parameters)
    tag_handling = parameters.text("tag_handling").lower()
    if tag_handling not in _FORMATS:
        refuse("tag_handling must be xml or html.")
    # In HTML, a line break is a space.
    default = "nonewlines" if tag_handling == "html" else "1"
    split = parameters.text("split_sentences") or default
    if split not in _SENTENCES:
        refuse(f"split_sentences must be one of: {', '.join(_SENTENCES)}.")
    return TextRequest(
        texts=texts,
        target=target,
        source=source,
        format=_FORMATS[tag_handling],
        ignored_tags=frozenset(parameters.names("ignore_tags")),
        splits_sentences=split != "0",
        keeps_newlines=split != "nonewlines",
    )


def _translation(result: TextResult, parameters: Parameters) -> dict[str, str | int]:
    source = parameters.text("source_lang")
    is_detected = source.lower() in ("", "auto")
    translation: dict[str, str | int] = {
        "detected_source_language": (result.source if is_detected else source).upper(),
        "text": result.text,
        # Some clients ask for it, and fail without it.
        "billed_characters": result.characters,
    }
    model_type = parameters.text("model_type")
    if model_type:
        is_fast = model_type == "latency_optimized"
        translation["model_type_used"] = model_type if is_fast else "quality_optimized"
    return translation
