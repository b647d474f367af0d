"""Comma-separated values with quoting (RFC 4180): `"He said ""no"".","Er sagte ""nein""."`.

A quoted cell may hold line breaks. A row's number is the line in which it begins. A quotation mark
that opens a cell and is never closed would make the rest of the file one cell: that is an error
which names the line of the mark, not a shorter corpus.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from dragoman.corpus.files import (
    LONE_SURROGATE,
    LONGEST,
    NOT_UTF8,
    NUL,
    TOO_LONG,
    check_files,
    read_lines,
)
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError, suggest


class Csv(Reader):
    """Columns by their name in the header, or by number from 1; the language codes unless given.

    Without a header columns have numbers only: 1 and 2 unless given.
    """

    endings: ClassVar[tuple[str, ...]] = (".csv",)

    def __init__(
        self,
        source: str,
        target: str,
        *,
        source_column: str | None = None,
        target_column: str | None = None,
        delimiter: Annotated[str, Field(pattern=r'^[^"\r\n]$')] = ",",
        header: bool = True,
    ) -> None:
        super().__init__(source, target)
        self.source_column = source_column or (source if header else "1")
        self.target_column = target_column or (target if header else "2")
        self.delimiter = delimiter
        self.header = header

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give a row for every record after the header."""
        check_files(paths, self.files)
        records = _Records(paths[0], self.delimiter)
        first = next(records, None) if self.header else []
        if first is None:
            return
        if isinstance(first, Reject):
            raise DataError(f"the header of {paths[0]} cannot be read: {first.reason}")
        source = _column(self.source_column, first, paths[0], has_header=self.header)
        target = _column(self.target_column, first, paths[0], has_header=self.header)
        for record in records:
            if isinstance(record, Reject):
                yield record
            elif len(record) <= max(source, target):
                yield Reject(records.begin, "too few columns")
            else:
                yield Row(records.begin, record[source], record[target])


def _column(wanted: str, header: list[str], path: Path, *, has_header: bool) -> int:
    if wanted in header:
        return header.index(wanted)
    is_number = wanted.isascii() and wanted.isdigit() and int(wanted) > 0
    if is_number and (not has_header or int(wanted) <= len(header)):
        return int(wanted) - 1
    if not has_header:
        raise DataError(
            f"found column {wanted!r} for {path}, expected a number from 1, as the file is said "
            f"to have no header"
        )
    raise DataError(
        f"{path} has no column {wanted!r}; {suggest(wanted, header[:20])}.\n"
        f"Name it in the recipe: source_column, target_column (and header: false if the first "
        f"line is a row already)"
    )


class _Records:
    """The records of a file, one by one, with the line in which the current one begins.

    The csv module asks for lines until a record is whole; this class sits on both sides of it to
    know which lines went into which record.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path = path
        self._delimiter = delimiter
        self.begin = 1
        # A cell must fit into the module's limit, so a line that cannot is turned away before.
        self._lines = read_lines(path, min(LONGEST, csv.field_size_limit()), escape=True)
        self._parser = csv.reader(self._text(), strict=True, delimiter=delimiter)
        self._line = 0
        self._size = 0
        self._record: list[str] = []
        self._reason: str | None = None
        """What is wrong with the current record, though it can be told from the next."""

    def __iter__(self) -> _Records:
        return self

    def __next__(self) -> list[str] | Reject:
        self._start()
        try:
            record = next(self._parser)
        except csv.Error as error:
            if self._line == self.begin and "unexpected end" not in str(error):
                is_return = "new-line" in str(error)
                return Reject(
                    self.begin, self._reason or ("return in a cell" if is_return else "bad quoting")
                )
            raise DataError(self._open_quote()) from None
        return Reject(self.begin, self._reason) if self._reason else record

    def _start(self) -> None:
        self.begin = self._line + 1
        self._size, self._reason = 0, None
        self._record.clear()

    def _text(self) -> Iterator[str]:
        for number, line in self._lines:
            is_first = self._line + 1 == self.begin
            self._line = number
            if isinstance(line, Reject):
                # What it opens or closes is unknown: alone it is a record, inside one it is fatal.
                if not is_first:
                    raise DataError(self._open_quote())
                self._reason = TOO_LONG
                yield "\n"
                continue
            self._record.append(line)
            self._size += len(line) + 1
            if self._size > LONGEST:
                raise DataError(self._open_quote())
            self._reason = self._reason or _reason_against(line)
            yield line + "\n"

    def _open_quote(self) -> str:
        line = self.begin + _last_opening(self._record, self._delimiter)
        return (
            f"the quotation mark in line {line:,} of {self.path} opens a cell that does "
            f"not close as it should; reading stopped in line {self._line:,}.\n"
            f'Inside a quoted cell a mark is written twice (""). If marks are plain text in this '
            f"file, it is no CSV: use the format tsv"
        )


def _last_opening(lines: Sequence[str], delimiter: str) -> int:
    """Find the line of a record in which the last mark stands that opens a cell."""
    opening = re.compile(rf'(?:^|{re.escape(delimiter)})"')
    closing = re.compile(rf'(?:[^"]|"")*"(?=$|{re.escape(delimiter)})')
    opened, is_quoted = 0, False
    for index, line in enumerate(lines):
        place = 0
        while found := (closing.match(line, place) if is_quoted else opening.search(line, place)):
            is_quoted = not is_quoted
            opened = index if is_quoted else opened
            place = found.end()
    return opened


def _reason_against(line: str) -> str | None:
    if "\0" in line:
        return NUL
    return NOT_UTF8 if not line.isascii() and LONE_SURROGATE.search(line) else None
