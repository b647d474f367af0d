"""What all requests to the LibreTranslate API share: the key, the texts and the languages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NoReturn
from urllib.parse import unquote_plus

from starlette.requests import Request

from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, Limits, Scope, ServiceError
from dragoman.serving.parameters import Parameters, parse_json

DEADLINE = 20.0
"""Seconds that Weblate waits for an answer."""

_ENCODED_LIST = re.compile(r"%5B%22[A-Za-z0-9%+._-]*%22%5D")
"""How the PHP client jefs42/libretranslate sends a list: URL-encoded JSON in one string."""
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
_CODE = re.compile(r"[A-Za-z0-9@_.-]{1,35}")


async def authorize(
    context: Context, request: Request, parameters: Parameters, scope: Scope
) -> Caller:
    """Find out who sends a request; an empty key is no key."""
    return await context.access.caller(request, parameters.text("api_key"), scope, DEADLINE)


@dataclass(frozen=True, slots=True)
class Query:
    """The texts of a request, and how they were sent."""

    texts: tuple[str, ...]
    form: Literal["string", "list", "encoded list"]


def read_query(parameters: Parameters, limits: Limits) -> Query:
    """Read the texts of `q`."""
    query = Query((), "list")
    if parameters.is_json and parameters.is_list("q"):
        query = Query(parameters.texts("q"), "list")
    elif text := form_text(parameters, "q"):
        texts = _decode_list(text, limits) if not parameters.is_json else ()
        query = Query(texts, "encoded list") if texts else Query((text,), "string")
    if not query.texts:
        refuse("missing q parameter")
    characters = sum(map(len, query.texts))
    for size, limit in ((len(query.texts), limits.texts), (characters, limits.characters)):
        if size > limit:
            raise ServiceError(
                "too_long", f"Invalid request: request ({size}) exceeds text limit ({limit})"
            )
    return query


def form_text(parameters: Parameters, name: str) -> str:
    """Return a text; forms send line breaks as CR LF."""
    text = parameters.text(name)
    if parameters.is_json:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode_list(text: str, limits: Limits) -> tuple[str, ...]:
    if not _ENCODED_LIST.fullmatch(text):
        return ()
    try:
        decoded = parse_json(unquote_plus(text, errors="strict").encode(), limits)
    except (ServiceError, UnicodeDecodeError):
        return ()
    items = decoded if isinstance(decoded, list) else []
    texts = tuple(item for item in items if isinstance(item, str))
    return texts if len(texts) == len(items) else ()


def read_languages(context: Context, parameters: Parameters) -> tuple[str, str]:
    """Read the source language (empty: detect it) and the target language."""
    source, target = parameters.text("source").strip(), parameters.text("target").strip()
    for name, code in (("source", source), ("target", target)):
        if not code:
            refuse(f"missing {name} parameter")
    if source.lower() == "auto":
        source = ""
    _check_languages(context, source, target)
    return source, target


def _check_languages(context: Context, source: str, target: str) -> None:
    """Refuse unknown languages and pairs with the words that clients look for."""
    service = context.service
    try:
        unknown = target
        service.check_target(target)
        unknown = source
        if source:
            service.resolve(source, target)
    except ServiceError as error:
        if error.kind == "unknown_language":
            raise ServiceError(error.kind, f"{shown_code(unknown)} is not supported") from None
        if error.kind == "missing_pair":
            origin = shown_code(source) if source else "any language"
            raise ServiceError(
                error.kind,
                f"{shown_code(target)} is not available as a target language from {origin}",
            ) from None
        raise


def shown_code(code: str) -> str:
    """Return a code for a message; text that is no code is not repeated."""
    return code if _CODE.fullmatch(code) else "This language"


def base_url(context: Context, request: Request) -> str:
    """Return the address of the server as the client sees it, without a final slash."""
    if context.settings.public_url:
        return context.settings.public_url.rstrip("/")
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        server = request.scope.get("server") or ("localhost", None)
        host = f"{server[0]}:{server[1]}" if server[1] else str(server[0])
    return f"{request.scope['scheme']}://{host}{request.scope.get('root_path', '')}".rstrip("/")


def refuse(message: str) -> NoReturn:
    """Raise the error for a value that cannot be used."""
    raise ServiceError("bad_request", f"Invalid request: {message}")
