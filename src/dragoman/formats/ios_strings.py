r"""Apple `.strings`: `"key" = "value";` for iOS and macOS.

A unit is a value; its key is the key, its note the comment before it. Keys and values are quoted,
or words without quotes. A written value is quoted. Escapes are `\n \t \r \" \' \\` and the others
of C, `\U12ab` and octal `\351`. Files are UTF-8, or UTF-16 with a byte order mark. A key without
a value (`"key";`) is its own value: it is a unit, and writing adds the value.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import Document, Target, Unit, merged, plain_text
from dragoman.formats.base.surrogates import join_surrogates
from dragoman.formats.base.text_file import TextEdit, TextFile, read_text

_STRING = r'"(?:[^"\\]++|\\[\s\S])*+"|\'(?:[^\'\\]++|\\[\s\S])*+\'|[A-Za-z0-9_.$:-]++'
_TOKEN = re.compile(
    rf"(?P<space>\s++)|(?P<comment>//[^\r\n]*+|/\*[\s\S]*?\*/)|(?P<string>{_STRING})"
    r"|(?P<mark>[=;])"
)
_ESCAPE = re.compile(r"\\(?:[Uu]([0-9A-Fa-f]{1,4})|([0-7]{1,3})|(\r\n|[\s\S]))")
_UNESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TO_ESCAPE = re.compile(r'["\\\n\t\r]')


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    value: str
    note: str
    line: int
    start: int
    """The position of the value with its quotes; `start` = `end` if there is none."""
    end: int


class IosStrings(Document):
    """Messages of an application in one language."""

    extensions: ClassVar[tuple[str, ...]] = (".strings",)

    def units(self) -> Iterator[Unit]:
        """Yield the values."""
        for entry in self._entries(read_text(self.data, self.name)):
            yield Unit(entry.key, merged([entry.value]), entry.line, note=entry.note)

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with other values."""
        file = read_text(self.data, self.name)
        return file.write(self._edits(file, targets))

    def _edits(self, file: TextFile, targets: Iterable[Target | None]) -> Iterator[TextEdit]:
        for entry, target in zip(self._entries(file), targets, strict=True):
            if target is None or (text := plain_text(target.content)) == entry.value:
                continue
            written = '"' + _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], text) + '"'
            is_added = entry.start == entry.end
            yield TextEdit(entry.start, entry.end, f" = {written}" if is_added else written)

    def _entries(self, file: TextFile) -> Iterator[_Entry]:
        tokens: list[re.Match[str]] = []
        comment = ""
        line = 1
        counted = 0
        for token in self._tokens(file):
            if token.lastgroup == "comment":
                comment = _comment(token[0]) if not tokens else comment
                continue
            tokens.append(token)
            if token[0] != ";" or token.lastgroup != "mark":
                self._check(file, tokens)
                continue
            key = tokens[0]
            if len(tokens) not in (2, 4):
                raise self._error(file, token.start(), "a key, = and a value before ;")
            line += file.text.count("\n", counted, key.start())
            counted = key.start()
            value = tokens[2] if len(tokens) == 4 else key
            start, end = value.span() if len(tokens) == 4 else (key.end(), key.end())
            yield _Entry(_unescape(key[0]), _unescape(value[0]), comment, line, start, end)
            tokens, comment = [], ""
        if tokens:
            raise self._error(file, len(file.text), "; after the last entry")

    def _check(self, file: TextFile, tokens: list[re.Match[str]]) -> None:
        """Raise if the tokens are not the beginning of `key = value;`."""
        token = tokens[-1]
        is_mark_expected = len(tokens) in (2, 4)
        if is_mark_expected != (token.lastgroup == "mark") or len(tokens) > 3:
            expected = {1: "a key", 2: "= or ;", 3: "a value"}.get(len(tokens), ";")
            raise self._error(file, token.start(), expected)

    def _tokens(self, file: TextFile) -> Iterator[re.Match[str]]:
        position = 0
        while position < len(file.text):
            token = _TOKEN.match(file.text, position)
            if token is None:
                raise self._error(file, position, 'an entry "key" = "value";')
            if token.lastgroup != "space":
                yield token
            position = token.end()

    def _error(self, file: TextFile, position: int, expected: str) -> DataError:
        rest = file.text[position : position + 20].split("\n")[0]
        actual = repr(rest) if position < len(file.text) else "the end of the file"
        return DataError(
            f"{self.name} is not a valid strings file in line {file.line_at(position):,}: found "
            f"{actual}, expected {expected}.\nCorrect the file; on a Mac, to check it, type: "
            f"plutil -lint {shlex.quote(self.name)}"
        )


def _comment(raw: str) -> str:
    return raw.removeprefix("/*").removesuffix("*/").removeprefix("//").strip()


def _unescape(raw: str) -> str:
    text = raw[1:-1] if raw[0] in "\"'" else raw
    return join_surrogates(_ESCAPE.sub(_character, text)) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[2]:
        # Octal escapes are in the encoding of NeXTSTEP; only its ASCII half is known here.
        code = int(match[2], 8)
        return chr(code) if code < 128 else match[0]
    return _UNESCAPED.get(match[3], match[3])
