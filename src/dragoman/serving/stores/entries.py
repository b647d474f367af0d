"""The entries of a glossary as TSV or CSV text: reading, limits, writing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from dragoman.serving.interface import ServiceError

Entries = tuple[tuple[str, str], ...]
"""Terms with their translations."""
EntriesFormat = Literal["tsv", "csv"]

MAX_ENTRIES = 20_000
"""Of a dictionary."""
MAX_TERM_BYTES = 1024
# Control characters, line and paragraph separators, lone surrogates.
_UNSUITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def parse_entries(text: str, format: EntriesFormat = "tsv") -> Entries:
    """Read entries: one per line, two columns.

    In CSV, two more columns may name the languages; they are ignored. Spaces around a term are
    removed and empty lines are skipped. Errors name the line and never repeat the text.
    """
    terms: dict[str, str] = {}
    try:
        for number, row in _rows(text, format):
            cells = [cell.strip(" ") for cell in row]
            if not any(cells):
                continue
            if len(cells) not in ((2, 4) if format == "csv" else (2,)):
                raise _error(number, f"has {len(cells)} column(s), expected 2")
            source, target = cells[:2]
            if source in terms:
                raise _error(number, "repeats the term of an earlier line")
            check_term(source, number)
            check_term(target, number)
            terms[source] = target
            if len(terms) > MAX_ENTRIES:
                raise ServiceError(
                    "bad_request", f"The glossary has more than {MAX_ENTRIES:,} entries."
                )
    except csv.Error:
        raise ServiceError("bad_request", "The glossary entries are not valid CSV.") from None
    if not terms:
        raise ServiceError("bad_request", "The glossary has no entries.")
    return tuple(terms.items())


def format_entries(entries: Iterable[tuple[str, str]]) -> str:
    """Write entries as TSV: one tab, LF between the lines, no header."""
    return "\n".join(f"{source}\t{target}" for source, target in entries)


def check_term(term: str, number: int) -> None:
    """Refuse a term that a TSV line cannot contain or that is too long."""
    if not term:
        raise _error(number, "has an empty column")
    if _UNSUITABLE.search(term):
        raise _error(number, "contains a control character or a line separator")
    if len(term.encode()) > MAX_TERM_BYTES:
        raise _error(number, f"has a term of more than {MAX_TERM_BYTES:,} bytes")


def _rows(text: str, format: EntriesFormat) -> Iterator[tuple[int, list[str]]]:
    if format == "csv":
        reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        yield number, line.removesuffix("\r").split("\t")


def _error(number: int, what: str) -> ServiceError:
    return ServiceError("bad_request", f"Line {number} of the glossary entries {what}.")
