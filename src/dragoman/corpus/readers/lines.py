"""Two text files with one sentence per line: line n of one file translates line n of the other.

This is the format of Moses and of most research corpora. Line n is row n. A line that cannot be
read is rejected together with its translation, and the other lines keep their numbers. An empty
line is an empty text, and the filters decide about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.files import check_files, read_lines
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError
from dragoman.storage.mirror import path_text


class Lines(CorpusReader):
    """The file in the source language first, then the file in the target language."""

    file_count: ClassVar[int] = 2
    extensions: ClassVar[tuple[str, ...]] = (".txt",)

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield a row for every pair of lines; raise at the end if one file has more lines."""
        check_files(paths, self.file_count)
        sources, targets = map(read_lines, paths)
        number = 0
        for left, right in zip_longest(sources, targets):
            if left is None or right is None:
                is_source = right is None
                longer = number + 1 + sum(1 for _ in (sources if is_source else targets))
                raise DataError(_unequal(paths, number, longer, is_source=is_source))
            number, source = left
            target = right[1]
            if isinstance(source, Reject):
                yield source
            elif isinstance(target, Reject):
                yield target
            else:
                yield Row(number, source, target)


def _unequal(paths: Sequence[Path], common: int, longer: int, *, is_source: bool) -> str:
    counts = (longer, common) if is_source else (common, longer)
    source, target = map(path_text, paths)
    longer_file = source if is_source else target
    return (
        f"{source} has {_lines(counts[0])} and {target} has {_lines(counts[1])}, expected the same "
        f"number: line n of one file must translate line n of the other.\n"
        f"Line {common + 1:,} of {longer_file} is the first line without a translation. The files "
        f"may differ much earlier: look for a line that is missing or was split in two."
    )


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"
