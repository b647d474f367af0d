"""What all requests to the DeepL API share: the key, the parameters, languages and glossaries."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import NoReturn

from starlette.requests import Request

from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, Pair, Scope, ServiceError
from dragoman.serving.parameters import Parameters, read_parameters
from dragoman.text.glossary import Glossary
from dragoman.text.languages import match_code

DEADLINE = 5.0
"""Seconds that Weblate and deepl-node wait for any answer."""
MAX_GLOSSARIES = 5
"""Of one translation."""

_SCHEME = "deepl-auth-key"
_FORMALITIES = ("default", "more", "less", "prefer_more", "prefer_less")
_MAX_CACHED = 8
"""Sets of glossaries whose terms are kept in memory; one may have 100,000 terms."""


def refuse(message: str) -> NoReturn:
    """Raise the error for a value that cannot be used."""
    raise ServiceError("bad_request", message)


async def authorize(
    context: Context, request: Request, scope: Scope, uploads: Path | None = None
) -> tuple[Caller, Parameters]:
    """Find out who sends a request, and read its parameters.

    The key is in the header `Authorization: DeepL-Auth-Key KEY` or in the parameter `auth_key`.
    """
    limits = context.settings.limits
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == _SCHEME:
        # The body is only read for a known client.
        caller = await context.access.caller(request, key.strip(), scope, DEADLINE)
        return caller, await read_parameters(request, limits, uploads)
    parameters = await read_parameters(request, limits, uploads)
    try:
        key = parameters.text("auth_key")
        return await context.access.caller(request, key, scope, DEADLINE), parameters
    except BaseException:
        parameters.remove_files()
        raise


def read_languages(context: Context, parameters: Parameters) -> tuple[str, str]:
    """Read the source language (empty: detect it) and the target language; check the formality."""
    source, target = parameters.text("source_lang"), parameters.text("target_lang")
    if source.lower() == "auto":
        source = ""
    if not target:
        refuse("target_lang is missing. Send the code of a language, for example DE.")
    if source:
        context.service.resolve(source, target)
    else:
        context.service.check_target(target)
    # Weblate sends an empty string if no formality is chosen.
    formality = parameters.text("formality") or "default"
    if formality not in _FORMALITIES:
        refuse(f"formality must be one of: {', '.join(_FORMALITIES)}.")
    if formality in ("more", "less"):
        refuse(f"formality is not supported for this target_lang. Use prefer_{formality}.")
    return source, target


class GlossaryFinder:
    """Finds the terms for a request; keeps the last few glossaries in memory."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cache: OrderedDict[tuple[object, ...], Glossary] = OrderedDict()

    async def find(self, parameters: Parameters, caller: Caller) -> Glossary | None:
        """Return the terms of the glossaries that a request names; the first glossary wins."""
        ids = (*parameters.names("glossary_id"), *parameters.names("glossary_ids"))
        if not ids:
            return None
        if len(ids) > MAX_GLOSSARIES:
            refuse(f"glossary_ids has {len(ids)} glossaries; at most {MAX_GLOSSARIES} are allowed.")
        source, target = parameters.text("source_lang"), parameters.text("target_lang")
        if source.lower() in ("", "auto"):
            refuse("A glossary needs source_lang.")
        return await self.load(ids, caller, self._context.service.resolve(source, target))

    async def load(self, ids: tuple[str, ...], caller: Caller, pair: Pair) -> Glossary:
        """Return the terms of stored glossaries for a language pair; the first glossary wins."""
        return await asyncio.to_thread(self._load, ids, caller.key_id, pair)

    def _load(self, ids: tuple[str, ...], owner: str, pair: Pair) -> Glossary:
        state = self._context.state
        infos = [state.glossary(owner, glossary_id) for glossary_id in ids]
        revisions = tuple((info.id, info.revision) for info in infos)
        key = (owner, pair.source, pair.target, *revisions)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        terms: dict[str, str] = {}
        has_dictionary = False
        for info in infos:
            for dictionary in info.dictionaries:
                # Dictionaries have base languages, `zh`; the languages of models may have more.
                if match_code(dictionary.source, [pair.source]) and match_code(
                    dictionary.target, [pair.target]
                ):
                    has_dictionary = True
                    entries = state.glossary_entries(
                        owner, info.id, dictionary.source, dictionary.target
                    )
                    terms = dict(entries) | terms
        if not has_dictionary:
            refuse(f"The glossary has no dictionary from {pair.source} to {pair.target}.")
        self._cache[key] = glossary = Glossary(terms)
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return glossary
