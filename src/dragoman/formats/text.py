"""Plain text (`.txt`): each line is a unit, and so is an empty line.

Its key is the number of the line. A line ends at a line feed, a carriage return, or both. A
newline in a translation becomes a space, so that the number of lines stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from dragoman.formats.base.document import Document, Target, Unit, merged, plain_text
from dragoman.formats.base.text_file import TextEdit, TextFile, read_text

_LINE = re.compile(r"([^\r\n]*+)(?:\r\n|[\r\n]|\Z)")
_NEWLINE = re.compile(r"\r\n|[\r\n]")


class Text(Document):
    """Lines in one language."""

    extensions: ClassVar[tuple[str, ...]] = (".txt",)

    def units(self) -> Iterator[Unit]:
        """Yield the lines."""
        for number, line in enumerate(_lines(read_text(self.data, self.name)), 1):
            yield Unit(str(number), merged([line[1]]), number)

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with other lines."""
        file = read_text(self.data, self.name)
        return file.write(_edits(file, targets))


def _edits(file: TextFile, targets: Iterable[Target | None]) -> Iterator[TextEdit]:
    for line, target in zip(_lines(file), targets, strict=True):
        if target is not None and (text := plain_text(target.content)) != line[1]:
            yield TextEdit(line.start(1), line.end(1), _NEWLINE.sub(" ", text))


def _lines(file: TextFile) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(file.text):
        line = _LINE.match(file.text, position)
        assert line
        yield line
        position = line.end()
