"""Tab-separated values, as parallel corpora use them: one row per line.

There is no quoting: a quotation mark at the beginning of a cell is ordinary text. A CSV reader
would take it for the beginning of a quoted cell and swallow the next rows. Line n is row n, also
after a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import PositiveInt

from dragoman.corpus.files import check_files, read_lines
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject, Row

_ESCAPE = re.compile(r"\\([tnr\\])")
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}


class Tsv(CorpusReader):
    r"""Columns are counted from 1; `backslash_escapes` decodes `\t`, `\n`, `\r` and `\\`."""

    extensions: ClassVar[tuple[str, ...]] = (".tsv", ".tab")

    def __init__(
        self,
        source: str,
        target: str,
        *,
        source_column: PositiveInt = 1,
        target_column: PositiveInt = 2,
        backslash_escapes: bool = False,
        header: bool = False,
    ) -> None:
        super().__init__(source, target)
        self.source_column = source_column
        self.target_column = target_column
        self.backslash_escapes = backslash_escapes
        self.header = header

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every line."""
        check_files(paths, self.file_count)
        source, target = self.source_column - 1, self.target_column - 1
        last = max(source, target)
        lines = read_lines(paths[0])
        if self.header:
            next(lines, None)
        for number, line in lines:
            if isinstance(line, Reject):
                yield line
                continue
            # The number of splits is limited, so that a line of a million tabs costs little.
            cells = line.split("\t", last + 1)
            if len(cells) <= last:
                yield Reject(number, "too few columns")
            elif self.backslash_escapes:
                yield Row(number, _unescape(cells[source]), _unescape(cells[target]))
            else:
                yield Row(number, cells[source], cells[target])


def _unescape(cell: str) -> str:
    # In one pass, so that `\\n` stays a backslash and an n.
    return _ESCAPE.sub(lambda match: _UNESCAPED[match[1]], cell) if "\\" in cell else cell
