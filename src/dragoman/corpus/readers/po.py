"""GNU gettext: a catalog (`.po`) of the messages of a program and their translations.

`msgid` is the source, `msgstr` the target. An entry is one row; rows and rejects are counted
together from 1. Fuzzy entries (guesses of a tool; rows with `keep_fuzzy`), obsolete entries (`#~`)
and entries without a translation are rejects. The entry with an empty `msgid` is the header: it is
not a row, but it names the encoding.

An entry with plural forms becomes two rows, because a language may have one form or six where
English has two: `msgid` with the form for n = 1, and `msgid_plural` with the form for n = 5. The
expression `Plural-Forms` in the header selects the forms; without it, the first and the last form
are used.

The parser is the one of the document format, `dragoman.formats.base.po_entries`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.files import MAX_LINE_BYTES, check_files, read_lines
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import NO_TRANSLATION, Reject, Row
from dragoman.formats.base.plural_forms import plural_form
from dragoman.formats.base.po_entries import (
    PoEntries,
    PoEntry,
    PoLine,
    header_language,
    header_plural_forms,
)
from dragoman.storage.mirror import path_text


class Po(CorpusReader):
    """The source is the language of the messages in the program, usually English."""

    extensions: ClassVar[tuple[str, ...]] = (".po",)

    def __init__(self, source: str, target: str, *, keep_fuzzy: bool = False) -> None:
        super().__init__(source, target)
        self.keep_fuzzy = keep_fuzzy

    @classmethod
    def languages_in(cls, paths: Sequence[Path]) -> tuple[str, ...]:
        """Return the target language, which the header states; the source is not stated."""
        check_files(paths, cls.file_count)
        for entry in _entries(paths[0]):
            if not entry.reason and entry.is_header:
                language = header_language(entry.forms()[0])
                return ("", language.replace("_", "-")) if language else ()
        return ()

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every translated message, and two rows for one with plural forms."""
        check_files(paths, self.file_count)
        number = 0
        singular, plural = 0, -1
        for entry in _entries(paths[0]):
            if not entry.reason and entry.is_header:
                singular, plural = _plural_forms(entry.forms()[0])
                continue
            is_rejected = entry.is_fuzzy and not self.keep_fuzzy
            for row in _rows(entry, number + 1, singular, plural, is_rejected):
                number += 1
                yield row


def _entries(path: Path) -> Iterator[PoEntry]:
    lines = (
        PoLine(number, "", reason=line.reason) if isinstance(line, Reject) else PoLine(number, line)
        for number, line in read_lines(path, escape=True)
    )
    return iter(PoEntries(lines, path_text(path), max_size=MAX_LINE_BYTES))


def _rows(
    entry: PoEntry, number: int, singular: int, plural: int, is_rejected: bool
) -> list[Row | Reject]:
    reason = entry.reason
    if not reason and (entry.is_obsolete or is_rejected):
        reason = "obsolete" if entry.is_obsolete else "fuzzy"
    if reason:
        return [Reject(number, reason)]
    forms = entry.forms()
    if "msgid_plural" not in entry.texts:
        return [_row(number, entry.text("msgid"), forms[0])]
    if not singular < len(forms) or not plural < len(forms):
        singular, plural = 0, -1  # The header selects forms that this entry does not have.
    return [
        _row(number, entry.text("msgid"), forms[singular]),
        _row(number + 1, entry.text("msgid_plural"), forms[plural]),
    ]


def _row(number: int, source: str, target: str) -> Row | Reject:
    return Row(number, source, target) if target else Reject(number, NO_TRANSLATION)


def _plural_forms(header: str) -> tuple[int, int]:
    """Return the indexes of the forms for n = 1 and n = 5; by default the first and the last."""
    _, expression = header_plural_forms(header)
    singular, plural = (plural_form(expression, n) for n in (1, 5))
    return (0, -1) if singular is None or plural is None else (singular, plural)
