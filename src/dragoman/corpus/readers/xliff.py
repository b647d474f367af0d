"""XML Localization Interchange File Format: XLIFF 1.1, 1.2 and 2.x, one document to translate.

In 1.x, a `<trans-unit>` becomes one row. In 2.x, a `<segment>` becomes one row (an `<ignorable>`
is not text). The n-th of them is row n. Suggestions from a translation memory (`<alt-trans>`,
`<mtc:match>`) are not rows. A target that is missing, empty, or marked as not translated yet
(`new`, `needs-translation`; in 2.x `initial`) is a reject.

The `<file>` element (2.x: the root) names the languages. They must match the wanted ones by the
rules of `tmx`. A file that does not name its target language is accepted. Parts in other languages
are rejects. If no part is in the wanted languages, that is an error.

Inline elements: the content of `<bpt>`, `<ept>`, `<ph>` and `<it>` is code and is dropped. `<g>`,
`<pc>` and `<mrk>` only enclose text, which is kept. White space is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.files import check_files
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import NO_TRANSLATION, Reject, Row
from dragoman.corpus.xml import (
    MAX_UNIT_BYTES,
    UNDEFINED_ENTITY,
    UNIT_TOO_LONG,
    read_events,
    text_of,
)
from dragoman.errors import DataError
from dragoman.formats.xliff import (
    TEXT_RULES,
    UNTRANSLATED_STATES,
    Segment,
    read_scopes,
    read_segments,
)
from dragoman.storage.mirror import path_text
from dragoman.text.languages import language_nearness

_MAX_NAMED_LANGUAGES = 20


class Xliff(CorpusReader):
    """Reads XLIFF 1.x and 2.x; the file itself states its version."""

    extensions: ClassVar[tuple[str, ...]] = (".xlf", ".xliff")

    @classmethod
    def languages_in(cls, paths: Sequence[Path]) -> tuple[str, ...]:
        """Return the languages of the first unit."""
        check_files(paths, cls.file_count)
        for scope in read_scopes(read_events(paths[0]), path_text(paths[0])):
            if scope.name in ("trans-unit", "unit"):
                return scope.source_language or "", scope.target_language or ""
        return ()

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every translated unit in the two languages."""
        check_files(paths, self.file_count)
        other_languages: dict[str, None] = {}
        has_wanted = False
        segments = read_segments(read_events(paths[0]), path_text(paths[0]), MAX_UNIT_BYTES)
        for number, segment in enumerate(segments, 1):
            languages = segment.scope.source_language, segment.scope.target_language
            is_wanted = self._wants(*languages)
            has_wanted = has_wanted or is_wanted
            if not is_wanted and len(other_languages) < _MAX_NAMED_LANGUAGES:
                other_languages[" to ".join(code or "(not stated)" for code in languages)] = None
            yield _row(number, segment) if is_wanted else Reject(number, "other languages")
        if other_languages and not has_wanted:
            raise DataError(
                f"{path_text(paths[0])} contains translations from {', '.join(other_languages)}, "
                f"expected from {self.source} to {self.target}.\n"
                f"Set `languages` to the codes of the file"
            )

    def _wants(self, source: str | None, target: str | None) -> bool:
        return all(
            code is None or language_nearness(wanted, code) > 0
            for wanted, code in ((self.source, source), (self.target, target))
        )


def _row(number: int, segment: Segment) -> Row | Reject:
    if segment.size > MAX_UNIT_BYTES:
        return Reject(number, UNIT_TOO_LONG)
    if segment.source is None:
        return Reject(number, "no source text")
    if segment.target is None or segment.state in UNTRANSLATED_STATES:
        return Reject(number, NO_TRANSLATION)
    source = text_of(segment.source, TEXT_RULES)
    target = text_of(segment.target, TEXT_RULES)
    if source is None or target is None:
        return Reject(number, UNDEFINED_ENTITY)
    return Row(number, source, target) if target else Reject(number, NO_TRANSLATION)
