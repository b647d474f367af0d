"""XML Localisation Interchange File Format: XLIFF 1.1, 1.2 and 2.x, one document to translate.

In 1.x a `<trans-unit>` becomes one row, in 2.x a `<segment>` does (an `<ignorable>` is no text).
The n-th of them is row n. Suggestions of a memory (`<alt-trans>`, `<mtc:match>`) are no rows. A
target that is missing, empty, or marked as not translated yet (`new`, `needs-translation`; in 2.x
`initial`) is a reject.

The languages stand at the file (2.x: at the root) and must be those that are wanted, as `tmx`
compares them; a file that does not say its target language is believed. Parts in other
languages are rejects, and if nothing is in the wanted ones, that is an error.

Inline elements: what stands in `<bpt>`, `<ept>`, `<ph>`, `<it>` is code and dropped; `<g>`, `<pc>`
and `<mrk>` only frame text, which is kept. White space is kept as it stands.
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
    local_name,
    read_units,
    text_of,
)
from dragoman.errors import DataError

_UNTRANSLATED = frozenset({"new", "needs-translation", "initial"})
_NO_TRANSLATION = "no translation"
_LISTED = 20


class Xliff(Reader):
    """Both generations of the format; the file says which one it is."""

    endings: ClassVar[tuple[str, ...]] = (".xlf", ".xliff")

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give a row for every translated unit in the two languages."""
        check_files(paths, self.files)
        others: dict[str, None] = {}
        is_found = False
        number = 0
        for unit in read_units(paths[0], "xliff", frozenset({"trans-unit", "unit"})):
            if unit is None:
                number += 1
                yield Reject(number, UNIT_TOO_LONG)
                continue
            languages = _languages(unit)
            is_wanted = self._wants(*languages)
            is_found = is_found or is_wanted
            if not is_wanted and len(others) < _LISTED:
                others[" to ".join(code or "(not said)" for code in languages)] = None
            for segment in _segments(unit):
                number += 1
                yield _row(number, segment) if is_wanted else Reject(number, "other languages")
        if others and not is_found:
            raise DataError(
                f"{paths[0]} holds translations from {', '.join(others)}, expected from "
                f"{self.source} to {self.target}.\nCheck the languages of the recipe"
            )

    def _wants(self, source: str | None, target: str | None) -> bool:
        return all(
            found is None or language_nearness(wanted, found) > 0
            for wanted, found in ((self.source, source), (self.target, target))
        )


def _languages(unit: Any) -> tuple[str | None, str | None]:
    """Find what the file says: at `<file>` in 1.x, at the root in 2.x."""
    source = target = None
    for element in unit.iterancestors():
        source = source or element.get("source-language") or element.get("srcLang")
        target = target or element.get("target-language") or element.get("trgLang")
    return source, target


def _segments(unit: Any) -> list[Any]:
    if local_name(unit) == "trans-unit":
        return [unit]
    return [child for child in unit if local_name(child) == "segment"]


def _row(number: int, segment: Any) -> Row | Reject:
    source, target = first_child(segment, "source"), first_child(segment, "target")
    if source is None:
        return Reject(number, "no source")
    # 1.x marks the target, 2.x the segment.
    if target is None or {target.get("state"), segment.get("state")} & _UNTRANSLATED:
        return Reject(number, _NO_TRANSLATION)
    source_text, target_text = text_of(source), text_of(target)
    if source_text is None or target_text is None:
        return Reject(number, UNDEFINED_ENTITY)
    return Row(number, source_text, target_text) if target_text else Reject(number, _NO_TRANSLATION)
