"""One row a line, cells separated by a tab: TSV as corpora use it.

There is no quoting: a cell that begins with a quotation mark is just text. A CSV reader would
take it for the beginning of a quoted cell and swallow the next rows. Line n is row n, also after
a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import PositiveInt

from dragoman.corpus.files import check_files, read_lines
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject, Row

_ESCAPED = re.compile(r"\\([tnr\\])")
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}


class Tsv(Reader):
    r"""Columns are counted from 1; `backslash_escapes` undoes `\t`, `\n`, `\r` and `\\`."""

    endings: ClassVar[tuple[str, ...]] = (".tsv", ".tab")

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
        """Give a row for every line."""
        check_files(paths, self.files)
        source, target = self.source_column - 1, self.target_column - 1
        needed = max(source, target)
        lines = read_lines(paths[0])
        if self.header:
            next(lines, None)
        for number, line in lines:
            if isinstance(line, Reject):
                yield line
                continue
            # No further than needed: a line of a million tabs stays a handful of cells.
            cells = line.split("\t", needed + 1)
            if len(cells) <= needed:
                yield Reject(number, "too few columns")
            elif self.backslash_escapes:
                yield Row(number, _unescape(cells[source]), _unescape(cells[target]))
            else:
                yield Row(number, cells[source], cells[target])


def _unescape(cell: str) -> str:
    # In one pass, so that `\\n` stays a backslash and an n.
    return _ESCAPED.sub(lambda found: _MEANT[found[1]], cell) if "\\" in cell else cell
