r"""Java `.properties`: one `key = value` per logical line.

A unit is a value; its key is the key of the property, its note the comment directly above. A
value that is written stands in one line, without continuation lines. Doubled apostrophes (`''`),
which `MessageFormat` needs and other readers do not, are part of the text: only the program knows
which reader it uses.

Encoding: a byte order mark decides. Without one, a file with characters beyond ASCII is UTF-8 if
it is valid UTF-8 (Java 9 and later), otherwise ISO-8859-1 (Java before). Characters that the
encoding does not have are written as `\uXXXX`; in a file that is only ASCII, these are all
characters beyond ASCII, so that every version of Java reads it. Half of a surrogate pair
(`\ud83d` alone) is read as U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import Document, Target, Unit, merged, plain_text
from dragoman.formats.base.surrogates import join_surrogates, utf16_escapes
from dragoman.formats.base.text_file import TextEdit, TextFile, mark_of, read_text

_CONTINUATION = r"\\(?:\r\n|[\r\n])[ \t\f]*+"
_CHARACTERS = rf"{_CONTINUATION}|\\[^\r\n]"
_SPACE = rf"(?:[ \t\f]++|{_CONTINUATION})*+"
_ENTRY = re.compile(
    rf"(?P<key>(?:[^\\=: \t\f\r\n]++|{_CHARACTERS})*+)"
    rf"(?P<separator>{_SPACE}(?:[=:]{_SPACE})?+)"
    rf"(?P<value>(?:[^\\\r\n]++|{_CHARACTERS})*+)\\?"
)
_START = re.compile(r"[ \t\f]*+(?P<comment>[#!][^\r\n]*+)?+")
_NEWLINE = re.compile(r"\r\n|[\r\n]")
_ESCAPE = re.compile(rf"{_CONTINUATION}|\\u([0-9A-Fa-f]{{4}})|\\([^\r\n])")
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\\": "\\\\", **{value: "\\" + key for key, value in _UNESCAPED.items()}}


@dataclass(frozen=True, slots=True)
class _Property:
    key: str
    value: str
    note: str
    line: int
    separator: str
    start: int
    """The position of the value."""
    end: int


class Properties(Document):
    """Messages of a Java program in one language."""

    extensions: ClassVar[tuple[str, ...]] = (".properties",)

    def units(self) -> Iterator[Unit]:
        """Yield the values."""
        for entry in self._properties(self._read()):
            yield Unit(entry.key, merged([entry.value]), entry.line, note=entry.note)

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with other values."""
        file = self._read()
        return file.write(self._edits(file, targets))

    def _read(self) -> TextFile:
        mark, _ = mark_of(self.data)
        if mark or self.data.isascii():
            file = read_text(self.data, self.name)
            return TextFile(self.name, file.text, file.encoding if mark else "ascii", mark)
        try:
            self.data.decode("utf-8")
        except UnicodeDecodeError:
            return TextFile(self.name, self.data.decode("iso-8859-1"), "iso-8859-1", b"")
        return read_text(self.data, self.name)

    def _edits(self, file: TextFile, targets: Iterable[Target | None]) -> Iterator[TextEdit]:
        for entry, target in zip(self._properties(file), targets, strict=True):
            if target is None or (text := plain_text(target.content)) == entry.value:
                continue
            value = _escape(text, file.encoding)
            if value[:1] in (" ", "=", ":"):
                # A space would be skipped; the others would be taken for the separator.
                value = "\\" + value
            yield TextEdit(entry.start, entry.end, value if entry.separator else "=" + value)

    def _properties(self, file: TextFile) -> Iterator[_Property]:
        text = file.text
        position, line = 0, 1
        comments: list[str] = []
        while position < len(text):
            start = _START.match(text, position)
            assert start
            begin = end = start.end()
            if start["comment"]:
                comments.append(start["comment"][1:].strip())
            elif begin < len(text) and text[begin] not in "\r\n":
                entry = _ENTRY.match(text, begin)
                assert entry
                end = entry.end()
                item = _Property(
                    key=self._unescape(entry["key"], line),
                    value=self._unescape(entry["value"], line),
                    note="\n".join(comments).strip(),
                    line=line,
                    separator=entry["separator"],
                    start=entry.start("value"),
                    end=entry.end("value"),
                )
                # A line that contains only the backslash of a continuation is not a property.
                if item.key or item.value or item.separator.strip(" \t\f\\\r\n"):
                    yield item
                comments = []
            else:
                comments = []
            newline = _NEWLINE.match(text, end)
            position = newline.end() if newline else len(text)
            line += len(_NEWLINE.findall(text, begin, position))

    def _unescape(self, raw: str, line: int) -> str:
        if "\\" not in raw:
            return raw

        def replace(match: re.Match[str]) -> str:
            if match[1]:
                return chr(int(match[1], 16))
            if match[2] == "u":
                wrong = raw[match.start() : match.start() + 6]
                raise DataError(
                    f"{self.name} is not a valid properties file: the property in line {line:,} "
                    f"contains {wrong!r}, expected \\u and four hexadecimal digits. Correct it, or "
                    "write \\\\u for a backslash before a u"
                )
            return _UNESCAPED.get(match[2], match[2]) if match[2] else ""

        text = _ESCAPE.sub(replace, raw)
        return join_surrogates(text)


def _escape(text: str, encoding: str) -> str:
    return "".join(
        character
        if " " <= character < "\x7f" and character != "\\"
        else _written(character, encoding)
        for character in text
    )


def _written(character: str, encoding: str) -> str:
    if escaped := _ESCAPED.get(character):
        return escaped
    try:
        if character >= "\xa0":
            character.encode(encoding)
            return character
    except UnicodeEncodeError:
        pass
    return utf16_escapes(character)
