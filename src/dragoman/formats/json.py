r"""JSON, and ARB (Flutter's messages): every string value is a unit.

The key is the path of the value: `menu.items[0].title`; a name with a dot, a bracket or a quote is
written `["a.b"]`. Names that begin with `@` are not translated, nor is anything below them:
`@@locale` and `@greeting` of ARB, `@metadata` of MediaWiki, `@type` of JSON-LD. The `description`
in `@greeting` is the note of `greeting`. Names of members are never units. Members with the same
name are separate units.

A file that contains `\uXXXX` for characters beyond ASCII and none of them plainly gets its
translations in that form, too. Half of a surrogate pair (`\ud83d` alone) is read as U+FFFD.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from dragoman.errors import DataError
from dragoman.formats.base.document import Document, Target, Unit, merged, plain_text
from dragoman.formats.base.surrogates import join_surrogates, utf16_escapes
from dragoman.formats.base.text_file import TextEdit, TextFile, read_text

MAX_DEPTH = 200

_SPACE = re.compile(r"[ \t\n\r]*+")
_TOKEN = re.compile(
    r'([{}\[\]:,])|"((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+)"'
    r"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null)"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_UNESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = {
    **{chr(code): f"\\u{code:04x}" for code in range(32)},
    **{value: "\\" + key for key, value in _UNESCAPED.items()},
    '"': '\\"',
    "\\": "\\\\",
}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_ESCAPED_NOT_ASCII = re.compile(r"\\u(?!00[0-7])[0-9A-Fa-f]{4}")
_PLAIN_NAME = re.compile(r'[^.\[\]"]+')

Expected = Literal["value", "value or ]", "name", "name or }", ":", ", or ]", ", or }", "the end"]


@dataclass(slots=True)
class _Frame:
    """An object or an array that is open."""

    is_object: bool
    name: str = ""
    index: int = 0
    is_hidden: bool = False
    """Whether it is below a name that begins with `@`."""

    @property
    def is_value_hidden(self) -> bool:
        return self.is_hidden or (self.is_object and self.name.startswith("@"))

    @property
    def step(self) -> str:
        """The path from here to the current value."""
        if not self.is_object:
            return f"[{self.index}]"
        if _PLAIN_NAME.fullmatch(self.name):
            return f".{self.name}"
        quoted = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'["{quoted}"]'


@dataclass(frozen=True, slots=True)
class _String:
    """A string value; `start` and `end` are the positions between its quotes."""

    names: tuple[str, ...]
    path: str
    value: str
    start: int
    end: int
    is_hidden: bool


class Json(Document):
    """Messages of a program in one language."""

    extensions: ClassVar[tuple[str, ...]] = (".json", ".arb")

    def units(self) -> Iterator[Unit]:
        """Yield the string values."""
        file = read_text(self.data, self.name)
        descriptions = {}
        if '"description"' in file.text and '"@' in file.text:
            descriptions = {
                string.names[0][1:]: string.value
                for string in _Scanner(file)
                if string.names[1:] == ("description",) and string.is_hidden
            }
        line, position = 1, 0
        for string in _Scanner(file):
            if not string.is_hidden:
                line += file.text.count("\n", position, string.start)
                position = string.start
                note = descriptions.get(string.names[0], "") if len(string.names) == 1 else ""
                yield Unit(string.path, merged([string.value]), line, note=note)

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with other values."""
        file = read_text(self.data, self.name)
        return file.write(_edits(file, targets))


def _edits(file: TextFile, targets: Iterable[Target | None]) -> Iterator[TextEdit]:
    is_ascii = file.text.isascii() and _ESCAPED_NOT_ASCII.search(file.text) is not None
    values = (string for string in _Scanner(file) if not string.is_hidden)
    for string, target in zip(values, targets, strict=True):
        if target is None or (text := plain_text(target.content)) == string.value:
            continue
        written = _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], text)
        if is_ascii:
            written = _NOT_ASCII.sub(lambda match: utf16_escapes(match[0]), written)
        yield TextEdit(string.start, string.end, written)


class _Scanner:
    """Iterates over the string values of a file and checks its syntax."""

    def __init__(self, file: TextFile) -> None:
        self._file = file
        self._text = file.text
        self._frames: list[_Frame] = []
        self._expected: Expected = "value"

    def __iter__(self) -> Iterator[_String]:
        position = 0
        while True:
            position = self._skip_space(position)
            if position == len(self._text) and self._expected == "the end":
                return
            token = _TOKEN.match(self._text, position)
            if token is None:
                raise self._error(position)
            position = token.end()
            if token[1]:
                self._punctuation(token[1], token.start())
            elif self._expected in ("name", "name or }") and token[2] is not None:
                self._frames[-1].name = _unescape(token[2])
                self._expected = ":"
            elif not self._expected.startswith("value"):
                raise self._error(token.start())
            else:
                if token[2] is not None:
                    yield self._string(token)
                self._value_ended()

    def _skip_space(self, position: int) -> int:
        space = _SPACE.match(self._text, position)
        return space.end() if space else position

    def _punctuation(self, character: str, position: int) -> None:
        if character in "{[" and self._expected.startswith("value"):
            self._open(character == "{", position)
        elif character in "}]" and self._expected.endswith(character):
            self._frames.pop()
            self._value_ended()
        elif character == ":" and self._expected == ":":
            self._expected = "value"
        elif character == "," and self._expected.startswith(","):
            self._expected = "name" if self._frames[-1].is_object else "value"
            self._frames[-1].index += 1
        else:
            raise self._error(position)

    def _open(self, is_object: bool, position: int) -> None:
        if len(self._frames) == MAX_DEPTH:
            line = self._file.line_at(position)
            raise DataError(
                f"{self._file.name} nests deeper than {MAX_DEPTH} levels in line {line:,}, "
                "expected fewer: the file is refused"
            )
        is_hidden = bool(self._frames) and self._frames[-1].is_value_hidden
        self._frames.append(_Frame(is_object, is_hidden=is_hidden))
        self._expected = "name or }" if is_object else "value or ]"

    def _value_ended(self) -> None:
        if not self._frames:
            self._expected = "the end"
        else:
            self._expected = ", or }" if self._frames[-1].is_object else ", or ]"

    def _string(self, token: re.Match[str]) -> _String:
        path = "".join(frame.step for frame in self._frames).removeprefix(".")
        return _String(
            names=tuple(frame.name for frame in self._frames),
            path=path or "$",
            value=_unescape(token[2]),
            start=token.start(2),
            end=token.end(2),
            is_hidden=bool(self._frames) and self._frames[-1].is_value_hidden,
        )

    def _error(self, position: int) -> DataError:
        line = self._file.line_at(position)
        column = position - self._text.rfind("\n", 0, position)
        rest = self._text[position : position + 20].split("\n")[0]
        actual = repr(rest) if position < len(self._text) else "the end of the file"
        name = self._file.name
        return DataError(
            f"{name} is not valid JSON in line {line:,}, column {column:,}: found {actual}, "
            f"expected {self._expected}.\nCorrect the file; to check it, type: "
            f"python -m json.tool {shlex.quote(name)}"
        )


def _unescape(raw: str) -> str:
    if "\\" not in raw:
        return raw
    return join_surrogates(
        _ESCAPE.sub(
            lambda match: (
                chr(int(match[1], 16)) if match[1] else _UNESCAPED.get(match[2], match[2])
            ),
            raw,
        )
    )
