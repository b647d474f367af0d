"""The DeepL API: glossaries of one language pair (`/v2`) and of several (`/v3`).

Both versions see the same glossaries. Weblate stores a glossary and looks for its name in the list
at once, so a change is visible to every process when its answer is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.apis.deepl_request import authorize, refuse
from dragoman.serving.context import Context
from dragoman.serving.interface import ServiceError
from dragoman.serving.parameters import Parameters
from dragoman.serving.stores.entries import format_entries, parse_entries
from dragoman.serving.stores.glossaries import Dictionary, DictionaryInfo, GlossaryInfo
from dragoman.text.languages import base_language

_TSV = "text/tab-separated-values"


def routes(context: Context) -> APIRouter:
    """Return the routes of both versions."""
    router = APIRouter(include_in_schema=False)
    one, several = _GlossariesV2(context), _GlossariesV3(context)
    path = "/v2/glossaries"
    router.add_api_route(path, one.create, methods=["POST"])
    router.add_api_route(path, one.list, methods=["GET"])
    path += "/{glossary_id}"
    router.add_api_route(path, one.show, methods=["GET"])
    router.add_api_route(path, one.delete, methods=["DELETE"])
    router.add_api_route(f"{path}/entries", one.entries, methods=["GET"])
    path = "/v3/glossaries"
    router.add_api_route(path, several.create, methods=["POST"])
    router.add_api_route(path, several.list, methods=["GET"])
    path += "/{glossary_id}"
    router.add_api_route(path, several.show, methods=["GET"])
    router.add_api_route(path, several.change, methods=["PATCH"])
    router.add_api_route(path, several.delete, methods=["DELETE"])
    router.add_api_route(f"{path}/entries", several.entries, methods=["GET"])
    path += "/dictionaries"
    router.add_api_route(path, several.replace_dictionary, methods=["PUT"])
    router.add_api_route(path, several.delete_dictionary, methods=["DELETE"])
    return router


class _Glossaries:
    """What both versions share."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._state = context.state

    async def delete(self, request: Request, glossary_id: str) -> Response:
        owner, _ = await self._authorize(request)
        await asyncio.to_thread(self._state.delete_glossary, owner, glossary_id)
        return Response(status_code=204)

    async def _authorize(self, request: Request) -> tuple[str, Parameters]:
        caller, parameters = await authorize(self._context, request, "glossaries")
        return caller.key_id, parameters

    def _read_dictionary(self, parameters: Parameters) -> Dictionary:
        source, target = _read_pair(parameters)
        self._context.service.resolve(source, target)
        text, kind = parameters.text("entries"), parameters.text("entries_format") or "tsv"
        if kind not in ("tsv", "csv"):
            refuse("entries_format must be tsv or csv.")
        return Dictionary(source, target, parse_entries(text, "csv" if kind == "csv" else "tsv"))


class _GlossariesV2(_Glossaries):
    """Glossaries with one dictionary."""

    async def create(self, request: Request) -> Response:
        owner, parameters = await self._authorize(request)
        dictionary = self._read_dictionary(parameters)
        name = parameters.text("name")
        info = await asyncio.to_thread(self._state.add_glossary, owner, name, [dictionary])
        return JSONResponse(_info_v2(info), status_code=201)

    async def list(self, request: Request) -> Response:
        owner, _ = await self._authorize(request)
        infos = (info for info in self._state.glossaries(owner) if len(info.dictionaries) == 1)
        return JSONResponse({"glossaries": [_info_v2(info) for info in infos]})

    async def show(self, request: Request, glossary_id: str) -> Response:
        owner, _ = await self._authorize(request)
        return JSONResponse(_info_v2(self._state.glossary(owner, glossary_id)))

    async def entries(self, request: Request, glossary_id: str) -> Response:
        owner, _ = await self._authorize(request)
        info = _only_dictionary(self._state.glossary(owner, glossary_id))
        entries = self._state.glossary_entries(owner, glossary_id, info.source, info.target)
        # Also to clients that prefer JSON: the official ones cannot read any other form.
        return Response(format_entries(entries), media_type=_TSV)


class _GlossariesV3(_Glossaries):
    """Glossaries with any number of dictionaries."""

    async def create(self, request: Request) -> Response:
        owner, parameters = await self._authorize(request)
        dictionaries = self._read_dictionaries(parameters)
        name = parameters.text("name")
        info = await asyncio.to_thread(self._state.add_glossary, owner, name, dictionaries)
        return JSONResponse(_info_v3(info), status_code=201)

    async def list(self, request: Request) -> Response:
        owner, _ = await self._authorize(request)
        infos = self._state.glossaries(owner)
        return JSONResponse({"glossaries": [_info_v3(info) for info in infos]})

    async def show(self, request: Request, glossary_id: str) -> Response:
        owner, _ = await self._authorize(request)
        return JSONResponse(_info_v3(self._state.glossary(owner, glossary_id)))

    async def change(self, request: Request, glossary_id: str) -> Response:
        owner, parameters = await self._authorize(request)
        dictionaries = self._read_dictionaries(parameters)
        name = parameters.text("name")
        if not name and not dictionaries:
            refuse("Send a name or dictionaries.")
        info = await asyncio.to_thread(
            self._state.change_glossary, owner, glossary_id, name, dictionaries
        )
        return JSONResponse(_info_v3(info))

    async def entries(self, request: Request, glossary_id: str) -> Response:
        owner, parameters = await self._authorize(request)
        source, target = _read_pair(parameters)
        entries = self._state.glossary_entries(owner, glossary_id, source, target)
        dictionary = {
            "source_lang": source,
            "target_lang": target,
            "entries": format_entries(entries),
            "entries_format": "tsv",
        }
        return JSONResponse({"dictionaries": [dictionary]})

    async def replace_dictionary(self, request: Request, glossary_id: str) -> Response:
        owner, parameters = await self._authorize(request)
        dictionary = self._read_dictionary(parameters)
        info = await asyncio.to_thread(
            self._state.replace_dictionary, owner, glossary_id, dictionary
        )
        return JSONResponse(_dictionary(info.dictionary(dictionary.source, dictionary.target)))

    async def delete_dictionary(self, request: Request, glossary_id: str) -> Response:
        owner, parameters = await self._authorize(request)
        pair = _read_pair(parameters)
        await asyncio.to_thread(self._state.delete_dictionary, owner, glossary_id, *pair)
        return Response(status_code=204)

    def _read_dictionaries(self, parameters: Parameters) -> Sequence[Dictionary]:
        objects = parameters.objects("dictionaries")
        return [self._read_dictionary(dictionary) for dictionary in objects]


def _read_pair(parameters: Parameters) -> tuple[str, str]:
    """Read the languages of a dictionary: `en` for `EN-US`."""
    codes = [base_language(parameters.text(name)) for name in ("source_lang", "target_lang")]
    source, target = codes
    if not source or not target:
        refuse("source_lang or target_lang is missing.")
    return source, target


def _info_v2(info: GlossaryInfo) -> dict[str, str | int | bool]:
    dictionary = _only_dictionary(info)
    return {
        "glossary_id": info.id,
        "name": info.name,
        "ready": True,
        "source_lang": dictionary.source,
        "target_lang": dictionary.target,
        "creation_time": _creation_time(info),
        "entry_count": dictionary.entry_count,
    }


def _only_dictionary(info: GlossaryInfo) -> DictionaryInfo:
    if len(info.dictionaries) != 1:
        raise ServiceError(
            "not_found",
            f"The glossary has {len(info.dictionaries)} dictionaries; read it with /v3/glossaries.",
        )
    return info.dictionaries[0]


def _info_v3(info: GlossaryInfo) -> dict[str, object]:
    return {
        "glossary_id": info.id,
        "name": info.name,
        "creation_time": _creation_time(info),
        "dictionaries": [_dictionary(dictionary) for dictionary in info.dictionaries],
    }


def _dictionary(info: DictionaryInfo) -> dict[str, str | int]:
    return {
        "source_lang": info.source,
        "target_lang": info.target,
        "entry_count": info.entry_count,
    }


def _creation_time(info: GlossaryInfo) -> str:
    # deepl-python fails without the fraction, which `isoformat` omits if it is zero.
    return info.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
