"""Translation Memory eXchange (TMX 1.1 to 1.4b), the common file of translators' memories.

A `<tu>` holds one text in several languages, a `<tuv>` each. It becomes one row: the first `<tuv>`
of the source language with the first of the target language. `en` finds `en`, or else `en-US`;
`pt-BR` finds `pt-BR`, or else `pt`, but never `pt-PT`. Unit n is row n.

Inline elements: what stands in `<bpt>`, `<ept>`, `<ph>`, `<it>`, `<ut>` is code of the original
document and is dropped, with any `<sub>` inside it, for that is another text (an alternative
text, a footnote). Everything else, `<hi>` above all, is text and is kept. White space is kept as
it stands; cleaning makes one line of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dragoman.corpus.files import check_files
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject, Row
from dragoman.corpus.xml import (
    UNDEFINED_ENTITY,
    UNIT_TOO_LONG,
    first_child,
    language_nearness,
    read_units,
    text_of,
)

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Tmx(Reader):
    """Takes the two languages of a memory that may hold many."""

    endings: ClassVar[tuple[str, ...]] = (".tmx",)

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give a row for every unit that has both languages."""
        check_files(paths, self.files)
        for number, unit in enumerate(read_units(paths[0], "tmx", frozenset({"tu"})), 1):
            yield self._row(number, unit)

    def _row(self, number: int, unit: Any) -> Row | Reject:
        if unit is None:
            return Reject(number, UNIT_TOO_LONG)
        texts: list[str] = []
        for language in (self.source, self.target):
            segment = _segment(unit, language)
            if segment is None:
                return Reject(number, f"no {language} segment")
            text = text_of(segment)
            if text is None:
                return Reject(number, UNDEFINED_ENTITY)
            texts.append(text)
        return Row(number, *texts)


def _segment(unit: Any, language: str) -> Any:
    """Give the first segment in this very language, or else the first that is near enough."""
    near = None
    for variant in unit:
        # TMX 1.1 wrote `lang`, before XML had an attribute of its own for it.
        found = variant.get(_LANGUAGE) or variant.get("lang")
        nearness = language_nearness(language, found) if found else 0
        if nearness == 0 or (near is not None and nearness == 1):
            continue
        segment = first_child(variant, "seg")
        if segment is not None and nearness == 2:
            return segment
        near = segment if near is None else near
    return near
