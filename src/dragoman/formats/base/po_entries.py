r"""Parses the entries of a gettext catalog: one parser for documents and for the corpus reader.

A line that is not valid does not stop the parser: the entry gets the reason, and the next entry is
read normally. The document format refuses such a file, and the corpus reader rejects such a row.

The header is the entry with an empty `msgid`. Its charset applies to all lines after it. The file
is split at line feeds only, not at U+2028 or the form feed. The escapes
`\n \t \r \a \b \f \v \\ \"` are decoded; others are kept as they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.formats.base.plural_forms import plural_form

NOT_UTF8 = "not UTF-8"
NOT_IN_CHARSET = "not in the header's charset"
NUL = "NUL character"
SYNTAX = "invalid PO syntax"
TOO_LONG = "entry too long"

_TOKEN = re.compile(
    r'[ \t]*(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,2}\])?|domain)(?=[ \t"]|$)'
    r'|"((?:[^"\\]|\\.)*)"|$)'
)
_BEGINS_MESSAGE = re.compile(r'(?:#~)?[ \t]*msg(?:id|ctxt)(?=[ \t"]|$)')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r'\\([ntrabfv"\\])')
_UNESCAPED = dict(zip('ntrabfv"\\', '\n\t\r\a\b\f\v"\\', strict=True))
_ESCAPED = str.maketrans({value: "\\" + key for key, value in _UNESCAPED.items()})
_CHARSET = re.compile(r"charset=([^\s;]+)", re.IGNORECASE)
_LANGUAGE = re.compile(r"^language:[ \t]*([A-Za-z]{2,3}(?:[_-]\w+)?)", re.I | re.M)
_FORM_COUNT = re.compile(r"nplurals\s*=\s*([1-9]\d?)\s*;", re.IGNORECASE)
_FORM_EXPRESSION = re.compile(r"(?<![a-z])plural\s*=\s*([^;]+)", re.IGNORECASE)
_ASCII_SAMPLE = bytes(set(range(32, 127)) - {ord("\\")}) + rb"\\ \u0041.xn--4ca"


class PoLine(NamedTuple):
    """One line of the file, without its newline."""

    number: int
    text: str
    """Decoded as UTF-8; bytes that are not UTF-8 are lone surrogates (`surrogateescape`)."""
    start: int = 0
    """The position of the line in the file, in bytes."""
    end: int = 0
    """The position after its newline."""
    reason: str = ""
    """Why the line could not be read."""


@dataclass(slots=True)
class PoText:
    """The strings after one keyword."""

    first: PoLine
    last: PoLine
    strings: list[str] = field(default_factory=list)

    @property
    def value(self) -> str:
        """The text, with its escapes decoded."""
        joined = "".join(self.strings)
        return _ESCAPE.sub(lambda match: _UNESCAPED[match[1]], joined) if "\\" in joined else joined


@dataclass(slots=True)
class PoEntry:
    """A message with its translations."""

    texts: dict[str, PoText] = field(default_factory=dict)
    """By keyword: `msgctxt`, `msgid`, `msgid_plural`, `msgstr` or `msgstr[0]`."""
    comments: list[PoLine] = field(default_factory=list)
    """All lines that begin with `#`, in order, except obsolete messages."""
    charset: str = "utf-8"
    is_fuzzy: bool = False
    is_obsolete: bool = False
    reason: str = ""
    """Why the entry is not valid; empty if it is."""
    line: int = 0
    """The line of the reason, or the first line of the message."""
    keyword: str = ""
    size: int = 0
    is_bad_utf8: bool = False

    def text(self, keyword: str) -> str:
        """Return the text after a keyword."""
        return self.texts[keyword].value

    def forms(self) -> list[str]:
        """Return the translations: one, or one per plural form."""
        return [text.value for keyword, text in self.texts.items() if keyword.startswith("msgstr")]

    def reject(self, reason: str, line: int) -> None:
        """Keep the first reason why the entry is not valid."""
        if not self.reason:
            self.reason, self.line = reason, line

    @property
    def is_garbage(self) -> bool:
        """Whether only lines that are not PO syntax were read so far."""
        return bool(self.reason) and not self.texts

    @property
    def is_complete(self) -> bool:
        """Whether a translation was read, so that the next message begins a new entry."""
        return any(keyword.startswith("msgstr") for keyword in self.texts)

    @property
    def is_header(self) -> bool:
        """Whether this is the entry that describes the file."""
        if not self.is_complete or "msgctxt" in self.texts or "msgid" not in self.texts:
            return False
        return not self.text("msgid")


class PoEntries:
    """Iterates over the entries of a file, including the header; `name` is used in errors."""

    def __init__(self, lines: Iterable[PoLine], name: str, max_size: int | None = None) -> None:
        self._lines = lines
        self._name = name
        self._max_size = max_size
        self._charset = "utf-8"
        self._is_header_seen = False
        self._entry = PoEntry()

    def __iter__(self) -> Iterator[PoEntry]:
        for line in self._lines:
            if line.reason:
                self._entry.reject(line.reason, line.number)
                continue
            text = line.text.strip(" \t\f\v\r")
            is_obsolete = text.startswith("#~")
            if text.startswith("#") and not is_obsolete:
                if self._entry.is_complete or self._entry.is_garbage:
                    yield self._finish()
                self._comment(line, text)
            elif text and not text.startswith("#~|"):
                # The header must be finished before a line is decoded with its charset.
                if self._entry.is_complete and _BEGINS_MESSAGE.match(text):
                    yield self._finish()
                yield from self._message(line, text.removeprefix("#~"), is_obsolete=is_obsolete)
        if self._entry.texts or self._entry.is_garbage:
            yield self._finish()

    def _finish(self) -> PoEntry:
        entry, self._entry = self._entry, PoEntry()
        if not entry.reason and entry.is_header:
            if not self._is_header_seen:
                self._is_header_seen = True
                self._charset = header_charset(entry.forms()[0], self._name)
        elif entry.is_bad_utf8:
            # Checked only now, because the header itself uses the encoding that it names.
            entry.reject(NOT_UTF8, entry.line)
        if not (entry.is_complete and "msgid" in entry.texts):
            entry.reject(SYNTAX, entry.line)
        entry.charset = self._charset
        return entry

    def _comment(self, line: PoLine, text: str) -> None:
        self._entry.comments.append(line)
        if text.startswith("#,"):
            self._entry.is_fuzzy = self._entry.is_fuzzy or "fuzzy" in flags_in(text)

    def _message(self, line: PoLine, text: str, *, is_obsolete: bool) -> Iterator[PoEntry]:
        decoded, reason = self._decode(text)
        position = 0
        while position < len(decoded):
            token = _TOKEN.match(decoded, position)
            if token is None:
                if position == 0 and self._entry.is_complete and not decoded.startswith('"'):
                    yield self._finish()
                reason = reason or SYNTAX
                break
            position = token.end()
            if token[1]:
                if self._begins_entry(token[1]):
                    yield self._finish()
                self._start_text(token[1], line, is_obsolete=is_obsolete)
            elif token[2] is not None:
                self._add_string(token[2], line)
        if reason:
            self._entry.reject(reason, line.number)
        self._entry.is_bad_utf8 |= _LONE_SURROGATE.search(decoded) is not None

    def _begins_entry(self, keyword: str) -> bool:
        if keyword == "msgctxt":
            return bool(self._entry.texts) or self._entry.is_garbage
        is_finished = self._entry.is_complete or self._entry.is_garbage
        return keyword == "msgid" and (is_finished or "msgid" in self._entry.texts)

    def _start_text(self, keyword: str, line: PoLine, *, is_obsolete: bool) -> None:
        entry = self._entry
        is_misplaced = keyword in entry.texts or (
            keyword not in ("msgctxt", "msgid", "domain") and "msgid" not in entry.texts
        )
        if is_misplaced:
            entry.reject(SYNTAX, line.number)
        entry.keyword = keyword
        entry.line = entry.line or line.number
        entry.is_obsolete = entry.is_obsolete or is_obsolete
        if keyword != "domain":
            entry.texts.setdefault(keyword, PoText(line, line))

    def _add_string(self, string: str, line: PoLine) -> None:
        entry = self._entry
        entry.size += len(string)
        if not entry.keyword:
            entry.reject(SYNTAX, line.number)
        elif self._max_size is not None and entry.size > self._max_size:
            entry.reason, entry.line = TOO_LONG, entry.line or line.number
        elif entry.keyword != "domain":
            text = entry.texts[entry.keyword]
            text.strings.append(string)
            text.last = line

    def _decode(self, text: str) -> tuple[str, str]:
        """Decode a line with the charset of the header; return it with the reason to reject it."""
        reason = NUL if "\0" in text else ""
        # ISO-2022 encodes everything in ASCII characters, after an escape character.
        if self._charset == "utf-8" or (text.isascii() and "\x1b" not in text):
            return text, reason
        try:
            return text.encode("utf-8", "surrogateescape").decode(self._charset), reason
        except UnicodeDecodeError:
            return text, NOT_IN_CHARSET


def flags_in(comment: str) -> list[str]:
    """Return the flags of a line `#, fuzzy, c-format`."""
    flags = (flag.strip() for flag in comment.strip().removeprefix("#,").split(","))
    return [flag for flag in flags if flag]


def escape(text: str) -> str:
    """Write a text as it stands between quotes."""
    return text.translate(_ESCAPED)


def header_field(header: str, name: str) -> str:
    """Return the text after `Name:` in a header, or an empty string."""
    match = re.search(rf"^{name}:([^\n]*)", header, re.IGNORECASE | re.MULTILINE)
    return match[1] if match else ""


def header_charset(header: str, name: str) -> str:
    """Return the encoding that a header names; raise if it does not contain ASCII."""
    match = _CHARSET.search(header_field(header, "content-type"))
    charset = match[1].lower() if match else "utf-8"
    if charset in ("charset", "utf-8", "utf8"):  # A new template contains `charset=CHARSET`.
        return "utf-8"
    try:
        # Only encodings that keep the ASCII syntax of the file; this excludes UTF-7, for example.
        is_usable = _ASCII_SAMPLE.decode(charset) == _ASCII_SAMPLE.decode("ascii")
    except (LookupError, UnicodeError, ValueError):
        is_usable = False
    if not is_usable:
        raise DataError(
            f"the header of {name} says charset={charset[:40]}, expected UTF-8 or another encoding "
            f"that contains ASCII.\n"
            f"Type: msgconv -t UTF-8 {shlex.quote(name)} -o new-file.po"
        )
    return charset


def header_language(header: str) -> str:
    """Return the target language that a header names (`pt_BR`), or an empty string."""
    match = _LANGUAGE.search(header)
    return match[1] if match else ""


def header_plural_forms(header: str) -> tuple[int | None, str]:
    """Return the number of plural forms and the expression that selects one; None if not valid."""
    field = header_field(header, "plural-forms")
    count, expression = _FORM_COUNT.search(field), _FORM_EXPRESSION.search(field)
    if expression is None or any(plural_form(expression[1], n) is None for n in (1, 5)):
        return None, ""
    return int(count[1]) if count else None, expression[1]
