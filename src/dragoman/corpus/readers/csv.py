"""Comma-separated values with quoting (RFC 4180): `"He said ""no"".","Er sagte ""nein""."`.

A quoted cell may contain line breaks. The number of a row is the line in which it begins.

A quotation mark that opens a cell and is never closed would turn the rest of the file into one
cell. That is an error that names the line of the mark, so that the corpus is never silently
shortened.

The delimiter is detected from the first lines: a comma wherever it fits, otherwise a semicolon
(the default of spreadsheets in many countries), a tab or a vertical bar.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from dragoman.corpus.files import (
    LONE_SURROGATE,
    MAX_LINE_BYTES,
    NOT_UTF8,
    NUL,
    TOO_LONG,
    check_files,
    read_lines,
)
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError, suggest
from dragoman.storage.mirror import path_text

_DELIMITERS = (",", ";", "\t", "|")
_DELIMITER_OPTION = r'^(auto|[^"\r\n])$'
_SAMPLE_LINES = 20
_NAMED_COLUMNS = 20


class Csv(CorpusReader):
    """Columns by their name in the header or by number from 1; default: the language codes.

    Without a header, columns have numbers only; default: 1 and 2. `delimiter: auto` detects the
    delimiter.
    """

    extensions: ClassVar[tuple[str, ...]] = (".csv",)

    def __init__(
        self,
        source: str,
        target: str,
        *,
        source_column: str | None = None,
        target_column: str | None = None,
        delimiter: Annotated[str, Field(pattern=_DELIMITER_OPTION)] = "auto",
        header: bool = True,
    ) -> None:
        super().__init__(source, target)
        self.source_column = source_column or (source if header else "1")
        self.target_column = target_column or (target if header else "2")
        self.delimiter = delimiter
        self.header = header

    @classmethod
    def columns_in(cls, paths: Sequence[Path], delimiter: str = "") -> tuple[str, ...]:
        """Return the cells of the header; without a delimiter, the one that gives most cells."""
        check_files(paths, cls.file_count)
        if delimiter and not re.fullmatch(_DELIMITER_OPTION, delimiter):
            raise DataError(
                f"found the delimiter {delimiter!r} for {path_text(paths[0])}, expected one "
                f"character (not a quotation mark), or auto.\n"
                f"A comma, semicolon, tab or vertical bar is detected: leave the delimiter out"
            )
        lines = _sample_lines(paths[0])
        delimiters = _DELIMITERS if delimiter in ("", "auto") else (delimiter,)
        tables = [_parse_sample(lines, candidate) for candidate in delimiters]
        headers = [tuple(table[0]) for table in tables if table]
        return max(headers, key=len, default=())

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every record after the header."""
        check_files(paths, self.file_count)
        path = paths[0]
        delimiter = self._detect_delimiter(path) if self.delimiter == "auto" else self.delimiter
        records = _Records(path, delimiter)
        header = next(records, None) if self.header else []
        if header is None:
            return
        if isinstance(header, Reject):
            raise DataError(
                f"the header in line {header.number} of {path_text(path)} cannot be read: "
                f"{header.reason}; expected the names of the columns.\n"
                f"If the file has no header, set `header: false` for this corpus in the recipe"
            )
        source = _column(self.source_column, header, path, has_header=self.header)
        target = _column(self.target_column, header, path, has_header=self.header)
        for record in records:
            if isinstance(record, Reject):
                yield record
            elif len(record) <= max(source, target):
                yield Reject(records.first_line, "too few columns")
            else:
                yield Row(records.first_line, record[source], record[target])

    def _detect_delimiter(self, path: Path) -> str:
        """Choose the first delimiter that fits the first lines of the file; a comma if none does.

        A header fits if it contains both columns. Without a header, the records fit if all of them
        have the same number of cells, two or more; blank lines are ignored.
        """
        lines = _sample_lines(path)
        tables = {delimiter: _parse_sample(lines, delimiter) for delimiter in _DELIMITERS}
        columns = (self.source_column, self.target_column)
        for delimiter, table in tables.items():
            if self.header:
                is_fitting = bool(table) and all(_index_in(name, table[0]) >= 0 for name in columns)
            else:
                cells = {len(record) for record in table if record}
                is_fitting = len(cells) == 1 and cells != {1}
            if is_fitting:
                return delimiter
        # No header contains the columns. One with several cells makes the clearest error message.
        several = (delimiter for delimiter, table in tables.items() if table and len(table[0]) > 1)
        return next(several, ",") if self.header else ","


def _sample_lines(path: Path) -> list[str]:
    """Return the first lines of a file, up to the first one that cannot be read."""
    lines: list[str] = []
    try:
        for _, line in islice(_raw_lines(path), _SAMPLE_LINES):
            if isinstance(line, Reject):
                break
            lines.append(f"{line}\n")
    except DataError:
        pass  # The same error is raised again when the rows are read.
    return lines


def _parse_sample(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the records of the sample, up to the first one that is incomplete or malformed."""
    records: list[list[str]] = []
    try:
        for record in csv.reader(lines, strict=True, delimiter=delimiter):
            records.append(record)
    except csv.Error:
        pass
    return records


def _index_in(column: str, header: Sequence[str]) -> int:
    """Return the index of a column given by name or by number from 1; -1 if there is none."""
    if column in header:
        return header.index(column)
    is_number = column.isascii() and column.isdigit()
    return int(column) - 1 if is_number and 0 < int(column) <= len(header) else -1


def _column(column: str, header: list[str], path: Path, *, has_header: bool) -> int:
    if has_header:
        index = _index_in(column, header)
        if index >= 0:
            return index
        raise DataError(
            f"{path_text(path)} has no column {column!r}; "
            f"{suggest(column, header[:_NAMED_COLUMNS])}.\n"
            f"Name the columns: set source_column and target_column for this corpus in the "
            f"recipe.\nIf the first line is a row already, set `header: false`; if the cells are "
            f"not separated, set `delimiter`"
        )
    if column.isascii() and column.isdigit() and int(column) > 0:
        return int(column) - 1
    raise DataError(
        f"found column {column!r} for {path_text(path)}, expected a number from 1: with "
        f"`header: false`, columns have no names"
    )


def _raw_lines(path: Path) -> Iterator[tuple[int, str | Reject]]:
    # A cell must fit into the limit of the csv module, so a longer line is rejected before.
    return read_lines(path, min(MAX_LINE_BYTES, csv.field_size_limit()), escape=True)


class _Records:
    """Iterates over the records of a file and knows the line in which the current one begins.

    The csv module asks for lines until a record is complete. This class both feeds the module and
    reads from it, so it knows which lines belong to which record.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path = path
        self.first_line = 1
        """The line in which the current record begins."""
        self._delimiter = delimiter
        self._lines = _raw_lines(path)
        self._parser = csv.reader(self._feed(), strict=True, delimiter=delimiter)
        self._line = 0
        self._size = 0
        self._record: list[str] = []
        self._reason: str | None = None
        """Why the current record is rejected, although it is known where it ends."""

    def __iter__(self) -> _Records:
        return self

    def __next__(self) -> list[str] | Reject:
        self._start_record()
        try:
            record = next(self._parser)
        except csv.Error as error:
            if self._line == self.first_line and "unexpected end" not in str(error):
                is_return = "new-line" in str(error)
                reason = "carriage return in a cell" if is_return else "malformed quoting"
                return Reject(self.first_line, self._reason or reason)
            raise DataError(self._unclosed_quote()) from None
        return Reject(self.first_line, self._reason) if self._reason else record

    def _start_record(self) -> None:
        self.first_line = self._line + 1
        self._size, self._reason = 0, None
        self._record.clear()

    def _feed(self) -> Iterator[str]:
        for number, line in self._lines:
            is_first = self._line + 1 == self.first_line
            self._line = number
            if isinstance(line, Reject):
                # It is unknown which quotes this line opens or closes. Alone it is one rejected
                # record. Inside a record, the end of the record is unknown.
                if not is_first:
                    raise DataError(self._unclosed_quote())
                self._reason = TOO_LONG
                yield "\n"
                continue
            self._record.append(line)
            self._size += len(line) + 1
            if self._size > MAX_LINE_BYTES:
                raise DataError(self._unclosed_quote())
            self._reason = self._reason or _reason_against(line)
            yield line + "\n"

    def _unclosed_quote(self) -> str:
        line = self.first_line + _last_opening_quote(self._record, self._delimiter)
        return (
            f"the quotation mark in line {line:,} of {path_text(self.path)} opens a cell that is "
            f"not closed correctly; reading stopped in line {self._line:,}.\n"
            f'Inside a quoted cell, a quotation mark is written twice (""). If quotation marks are '
            f"ordinary text in this file, it is not CSV: set `format: tsv` for this corpus"
        )


def _last_opening_quote(lines: Sequence[str], delimiter: str) -> int:
    """Return the index of the line that contains the last quotation mark that opens a cell."""
    opening = re.compile(rf'(?:^|{re.escape(delimiter)})"')
    closing = re.compile(rf'(?:[^"]|"")*"(?=$|{re.escape(delimiter)})')
    opened, is_quoted = 0, False
    for index, line in enumerate(lines):
        position = 0
        while match := (
            closing.match(line, position) if is_quoted else opening.search(line, position)
        ):
            is_quoted = not is_quoted
            opened = index if is_quoted else opened
            position = match.end()
    return opened


def _reason_against(line: str) -> str | None:
    if "\0" in line:
        return NUL
    return NOT_UTF8 if not line.isascii() and LONE_SURROGATE.search(line) else None
