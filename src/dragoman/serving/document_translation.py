"""Translates documents for the server, block by block, behind interactive requests."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dragoman.documents.translation import UnitResult, UnitTranslator
from dragoman.errors import DataError
from dragoman.formats.base.document import Content, Document, Unit
from dragoman.formats.base.folder import check_languages, find_format
from dragoman.serving.driving import Turn, drive, options_of
from dragoman.serving.engines import ModelVersion
from dragoman.serving.interface import (
    Caller,
    DocumentRequest,
    DocumentResult,
    Pair,
    ServiceError,
)
from dragoman.text.glossary import Glossary

_BLOCK_UNITS = 200
"""Units that are translated together."""
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_SECONDS = 3600.0
"""Longest time that a segment waits."""


def open_document(request: DocumentRequest) -> tuple[Document, list[Unit]]:
    """Read a document; its mistakes are the client's."""
    data = request.path.read_bytes()
    try:
        document = find_format(request.path.with_name(request.name), data)(data, request.name)
        return document, list(document.units())
    except DataError as error:
        raise ServiceError("bad_request", message_of(error, request.name)) from None


def set_languages(document: Document, pair: Pair) -> None:
    """Set the languages of a document; a file that names others is the client's mistake."""
    document.source_language, document.target_language = pair.source, pair.target
    try:
        check_languages(document)
    except DataError as error:
        raise ServiceError("bad_request", message_of(error, document.name)) from None


def message_of(error: Exception, name: str) -> str:
    """Return the message without the name and the text of the document, which are quoted."""
    text = _QUOTED.sub("…", str(error))
    return text.replace(name, f"document{Path(name).suffix}") if name else text


async def translate_units(
    document: Document,
    units: list[Unit],
    route: list[ModelVersion],
    pair: Pair,
    request: DocumentRequest,
    caller: Caller,
    on_units: Callable[[int, int], None],
) -> DocumentResult:
    """Translate the units of a document and write it; `on_units` gets (done, total)."""
    loop = asyncio.get_running_loop()
    turn = Turn(caller.client, loop.time() + _SECONDS, is_bulk=True, in_thread=True)
    results: list[UnitResult] = []
    async with contextlib.AsyncExitStack() as stack:
        for version in route:
            await stack.enter_async_context(version.use())
        for start in range(0, len(units), _BLOCK_UNITS):
            block = units[start : start + _BLOCK_UNITS]
            results += await _translate_block(block, route, request.glossary, turn)
            on_units(len(results), len(units))

    def write() -> None:
        with request.output.open("wb") as file:
            file.writelines(document.write(result.target for result in results))

    await asyncio.to_thread(write)
    return DocumentResult(
        units=len(units),
        characters=sum(result.characters for result in results),
        flagged=sum(bool(result.flags) for result in results),
        source=pair.source,
        model="+".join(version.info.version for version in route),
        pivot=pair.pivot,
    )


async def _translate_block(
    units: list[Unit],
    route: list[ModelVersion],
    glossary: Glossary | None,
    turn: Turn,
) -> list[UnitResult]:
    first = UnitTranslator(options_of(route[0]), glossary if len(route) == 1 else None)
    results = await drive(first.steps(units), route[0], turn)
    if len(route) == 1:
        return results
    # What the first model translated is the source of the second.
    rows = [row for row, result in enumerate(results) if result.origin == "machine"]
    middle = [
        replace(units[row], source=_content(results[row]), target=None, state="untranslated")
        for row in rows
    ]
    second = UnitTranslator(options_of(route[1]))
    for row, result in zip(rows, await drive(second.steps(middle), route[1], turn), strict=True):
        flags = tuple(dict.fromkeys((*results[row].flags, *result.flags)))
        target = result.target or results[row].target
        results[row] = replace(results[row], target=target, flags=flags)
    return results


def _content(result: UnitResult) -> Content:
    return result.target.content if result.target is not None else ()
