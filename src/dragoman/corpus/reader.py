"""What must a reader of parallel text be able to do?

One file in `format/` a format; its name is the format's name in a recipe. A reader streams: it
holds a block of the file at most. A bad row is a `Reject` and reading goes on; a file that cannot
be what it is said to be is a `DataError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.row import Reject, Row


class Reader(ABC):
    """Reads one corpus file, or two that belong together: `Reader(source, target)`.

    `source` and `target` are language codes (`en`, `de`, `zh-CN`); formats that hold several
    languages choose by them.
    """

    files: ClassVar[int] = 1
    """How many files make one corpus."""
    endings: ClassVar[tuple[str, ...]] = ()
    """File endings, without compression, by which the format is recognised: `.tsv`."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target

    @abstractmethod
    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give every row of the files, in order, and a reject for every row that is none."""
