"""The interface of a corpus reader.

One file in `readers/` per format. The name of the file is the name of the format in a recipe. A
reader streams: it keeps at most one block of the file in memory. A bad row becomes a `Reject`, and
reading continues. A file that does not have the expected format raises a `DataError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.row import Reject, Row


class CorpusReader(ABC):
    """Reads one corpus file, or two files that belong together: `CorpusReader(source, target)`.

    `source` and `target` are language codes (`en`, `de`, `zh-CN`). Formats that contain several
    languages use them to select the texts.
    """

    file_count: ClassVar[int] = 1
    """The number of files that make up one corpus."""
    extensions: ClassVar[tuple[str, ...]] = ()
    """The file extensions of this format, without compression: `.tsv`."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target

    @classmethod
    def languages_in(cls, paths: Sequence[Path]) -> tuple[str, ...]:
        """Return the language codes that the files state: source, target, then others.

        A code that is not stated is empty. Most formats state none.
        """
        return ()

    @classmethod
    def columns_in(cls, paths: Sequence[Path], delimiter: str = "") -> tuple[str, ...]:
        """Return the names of the columns or fields, for formats that have them."""
        return ()

    @abstractmethod
    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Yield every row of the files in order, and a reject for every row that is not valid."""
