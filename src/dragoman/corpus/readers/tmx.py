"""Translation Memory eXchange (TMX 1.1 to 1.4b), the exchange format of translation memories.

A `<tu>` contains one text in several languages, one `<tuv>` per language. It becomes one row: the
first `<tuv>` in the source language with the first `<tuv>` in the target language. `en` matches
`en`, otherwise `en-US`. `pt-BR` matches `pt-BR`, otherwise `pt`, but never `pt-PT`. Unit n is row
n.

Inline elements: the content of `<bpt>`, `<ept>`, `<ph>`, `<it>` and `<ut>` is code of the original
document and is dropped. A `<sub>` inside it is dropped too, because it is another text (an
alternative text, a footnote). Everything else, mainly `<hi>`, is text and is kept. White space is
kept; the unicode filter normalizes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.files import check_files
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject, Row
from dragoman.corpus.xml import (
    MAX_UNIT_BYTES,
    UNDEFINED_ENTITY,
    UNIT_TOO_LONG,
    read_events,
    text_of,
)
from dragoman.formats.tmx import RULES, TranslationUnit, read_units
from dragoman.storage.mirror import path_text
from dragoman.text.languages import base_language

_SAMPLE_UNITS = 1000


class Tmx(CorpusReader):
    """Reads two languages of a translation memory that may contain many."""

    extensions: ClassVar[tuple[str, ...]] = (".tmx",)

    @classmethod
    def languages_in(cls, paths: Sequence[Path]) -> tuple[str, ...]:
        """Return the languages of the first units; variants such as en-US and en-GB count as en."""
        check_files(paths, cls.file_count)
        source = ""
        variants: dict[str, set[str]] = {}
        for unit in islice(_units(paths[0]), _SAMPLE_UNITS):
            source = unit.source_language
            for variant in unit.variants:
                if variant.language:
                    variants.setdefault(base_language(variant.language), set()).add(
                        variant.language
                    )
        codes = [
            next(iter(codes)) if len(codes) == 1 else primary for primary, codes in variants.items()
        ]
        return tuple(sorted(codes, key=lambda code: base_language(code) != base_language(source)))

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every unit that contains both languages."""
        check_files(paths, self.file_count)
        for number, unit in enumerate(_units(paths[0]), 1):
            yield self._row(number, unit)

    def _row(self, number: int, unit: TranslationUnit) -> Row | Reject:
        if unit.size > MAX_UNIT_BYTES:
            return Reject(number, UNIT_TOO_LONG)
        texts: list[str] = []
        for language in (self.source, self.target):
            variant = unit.variant(language)
            if variant is None or variant.segment is None:
                return Reject(number, f"no {language} segment")
            text = text_of(variant.segment, RULES)
            if text is None:
                return Reject(number, UNDEFINED_ENTITY)
            texts.append(text)
        return Row(number, *texts)


def _units(path: Path) -> Iterator[TranslationUnit]:
    return read_units(read_events(path), path_text(path), MAX_UNIT_BYTES)
