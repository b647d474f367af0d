"""Decodes a text file, and writes it again with some places replaced.

The encoding is UTF-8, or the one that a byte order mark names. The mark is kept. Newlines are not
changed. A file in any other encoding is refused: a guess could destroy it without a warning.
"""

from __future__ import annotations

import codecs
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dragoman.errors import DataError

# UTF-32 first: its little-endian mark begins with the mark of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF8: "utf-8",
}
_BLOCK_CHARACTERS = 1 << 18


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replaces the characters from `start` to `end` (equal = an insertion)."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """A decoded file."""

    name: str
    text: str
    encoding: str
    mark: bytes
    """The byte order mark, or nothing."""

    def line_at(self, position: int) -> int:
        """Return the line of a position, from 1; for errors, because it counts from the start."""
        return self.text.count("\n", 0, position) + 1

    def write(self, edits: Iterable[TextEdit]) -> Iterator[bytes]:
        """Yield the bytes with the edits applied; the edits are in order and do not overlap."""
        yield self.mark
        position = 0
        for edit in edits:
            if edit.start < position or edit.end < edit.start:
                raise ValueError(f"edit {edit.start}-{edit.end} overlaps the previous")
            yield from self._encoded(position, edit.start)
            yield self._encode(edit.replacement)
            position = edit.end
        yield from self._encoded(position, len(self.text))

    def _encoded(self, start: int, end: int) -> Iterator[bytes]:
        for begin in range(start, end, _BLOCK_CHARACTERS):
            yield self.text[begin : min(begin + _BLOCK_CHARACTERS, end)].encode(self.encoding)

    def _encode(self, replacement: str) -> bytes:
        try:
            if "\0" not in replacement:
                return replacement.encode(self.encoding)
            character = "\0"
        except UnicodeEncodeError as error:
            character = replacement[error.start]
        raise DataError(
            f"a translation for {self.name} contains {character!r}, which a text file cannot "
            "contain; expected text without it"
        )


def mark_of(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark of a file and its encoding; nothing if it has none."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return mark, encoding
    return b"", ""


def read_text(data: bytes, name: str) -> TextFile:
    """Decode a file; `name` is used in errors."""
    mark, encoding = mark_of(data)
    encoding = encoding or "utf-8"
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        position = len(mark) + error.start
        line = data.count(b"\n", 0, position) + 1
        raise DataError(
            f"{name} is not {encoding.upper()} in line {line:,}: found the byte "
            f"0x{data[position]:02X}, expected UTF-8, or a byte order mark that names another "
            f"encoding.\nType: iconv -f GB18030 -t UTF-8 {shlex.quote(name)} > new-file, with the "
            "encoding of the file instead of GB18030"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(
            f"{name} contains a NUL character in line {line:,}, expected text: it is a binary "
            f"file, or it is encoded in UTF-16.\nType: iconv -f UTF-16LE -t UTF-8 "
            f"{shlex.quote(name)} > new-file"
        )
    return TextFile(name, text, encoding, mark)
