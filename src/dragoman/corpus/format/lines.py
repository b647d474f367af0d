"""Two files with one text a line, where line n of the one translates line n of the other.

Moses and most corpora of research come so. Line n is row n. A line that cannot be read takes its
partner with it and shifts nothing; an empty line is an empty text, and cleaning decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.files import check_files, read_lines
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError


class Lines(Reader):
    """The file in the source language first, then the file in the target language."""

    files: ClassVar[int] = 2
    endings: ClassVar[tuple[str, ...]] = (".txt",)

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give a row for every two lines; raise at the end if one file has more of them."""
        check_files(paths, self.files)
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
    source, target = paths
    extra = source if is_source else target
    return (
        f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}, expected as many in "
        f"both: line n of the one must translate line n of the other.\n"
        f"Line {common + 1:,} of {extra} is the first without a partner, but the lines may have "
        f"gone apart long before: look for a line that is missing or was cut in two."
    )
