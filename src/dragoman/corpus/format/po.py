r"""GNU gettext: a catalogue (`.po`) of the messages of a program and their translations.

`msgid` is the source, `msgstr` the target. An entry is one row; rows and rejects are counted from
1. Fuzzy entries (guesses of a tool), obsolete ones (`#~`) and those without a translation are
rejects. The entry with an empty `msgid` is the header: no row, but it says the encoding.

An entry with plurals is two rows, for a language may have one form or six where English has two:
`msgid` with the form for n = 1, and `msgid_plural` with the form for n = 5, as `Plural-Forms` in
the header computes them; without it the first form and the last.

The file is read line by line and not by polib, which cuts lines at U+2028 and the form feed.
Escapes are `\n \t \r \a \b \f \v \\ \"`; others stand as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import add, and_, eq, floordiv, ge, gt, le, lt, mod, mul, ne, or_, sub
from pathlib import Path
from typing import ClassVar

from dragoman.corpus.files import (
    LONE_SURROGATE,
    LONGEST,
    NOT_UTF8,
    NUL,
    check_files,
    read_lines,
)
from dragoman.corpus.reader import Reader
from dragoman.corpus.row import Reject, Row
from dragoman.errors import DataError

_SYNTAX = "not PO syntax"
_TOKEN = re.compile(
    r'[ \t]*(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,2}\])?|domain)(?=[ \t"]|$)'
    r'|"((?:[^"\\]|\\.)*)"|$)'
)
_ESCAPED = re.compile(r'\\([ntrabfv"\\])')
_MEANT = dict(zip('ntrabfv"\\', '\n\t\r\a\b\f\v"\\', strict=True))
_CHARSET = re.compile(r"content-type:[^\n]*charset=([^\s;]+)", re.IGNORECASE)
_PLURAL_FORMS = re.compile(r"plural-forms:[^\n]*plural\s*=\s*([^;\n]+)", re.IGNORECASE)
_SAMPLE = bytes(set(range(32, 127)) - {ord("\\")}) + rb"\\ \u0041.xn--4ca"


@dataclass
class _Entry:
    """A message as it is being read."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    keyword: str = ""
    size: int = 0
    is_fuzzy: bool = False
    is_obsolete: bool = False
    is_bad_utf8: bool = False
    reason: str | None = None

    def text(self, keyword: str) -> str:
        joined = "".join(self.texts[keyword])
        return _ESCAPED.sub(lambda found: _MEANT[found[1]], joined) if "\\" in joined else joined

    def forms(self) -> list[str]:
        return [self.text(keyword) for keyword in self.texts if keyword.startswith("msgstr")]

    @property
    def is_garbage(self) -> bool:
        return self.reason is not None and not self.texts

    @property
    def is_complete(self) -> bool:
        return any(keyword.startswith("msgstr") for keyword in self.texts)

    @property
    def is_header(self) -> bool:
        return self.is_complete and "msgctxt" not in self.texts and not self.text("msgid")


class Po(Reader):
    """Programs are translated from the language of their messages, mostly English."""

    endings: ClassVar[tuple[str, ...]] = (".po",)

    def read(self, paths: Sequence[Path]) -> Iterator[Row | Reject]:
        """Give a row for every translated message, two for one with plurals."""
        check_files(paths, self.files)
        number = 0
        singular, plural = 0, -1
        for entry in _Entries(paths[0]):
            if entry.reason is None and entry.is_header:
                singular, plural = _plural_forms(entry.text("msgstr"))
                continue
            for row in _rows(entry, number + 1, singular, plural):
                number += 1
                yield row


def _rows(entry: _Entry, number: int, singular: int, plural: int) -> list[Row | Reject]:
    reason = entry.reason
    if reason is None and not (entry.is_complete and "msgid" in entry.texts):
        reason = _SYNTAX
    elif reason is None and (entry.is_obsolete or entry.is_fuzzy):
        reason = "obsolete" if entry.is_obsolete else "fuzzy"
    if reason is not None:
        return [Reject(number, reason)]
    forms = entry.forms()
    if "msgid_plural" not in entry.texts:
        return [_row(number, entry.text("msgid"), forms[0])]
    if not singular < len(forms) or not plural < len(forms):
        singular, plural = 0, -1  # The header computes forms that this entry does not have.
    return [
        _row(number, entry.text("msgid"), forms[singular]),
        _row(number + 1, entry.text("msgid_plural"), forms[plural]),
    ]


def _row(number: int, source: str, target: str) -> Row | Reject:
    return Row(number, source, target) if target else Reject(number, "no translation")


class _Entries:
    """The entries of a file, the header too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._charset = "utf-8"
        self._is_header_seen = False
        self._entry = _Entry()

    def __iter__(self) -> Iterator[_Entry]:
        for _, line in read_lines(self._path, escape=True):
            if isinstance(line, Reject):
                self._entry.reason = line.reason
                continue
            text = line.strip(" \t\f\v\r")
            is_obsolete = text.startswith("#~")
            if text.startswith("#") and not is_obsolete:
                if self._entry.is_complete or self._entry.is_garbage:
                    yield self._finish()
                self._comment(text)
            elif text and not text.startswith("#~|"):
                yield from self._message(text.removeprefix("#~"), is_obsolete=is_obsolete)
        if self._entry.texts or self._entry.is_garbage:
            yield self._finish()

    def _finish(self) -> _Entry:
        entry, self._entry = self._entry, _Entry()
        if entry.reason is None and entry.is_header:
            if not self._is_header_seen:
                self._is_header_seen = True
                self._charset = _charset(entry.text("msgstr"), self._path)
        elif entry.is_bad_utf8:
            # Only now, for the header itself is written in the encoding that it names.
            entry.reason = entry.reason or NOT_UTF8
        return entry

    def _comment(self, text: str) -> None:
        if text.startswith("#,"):
            flags = [flag.strip() for flag in text[2:].split(",")]
            self._entry.is_fuzzy = self._entry.is_fuzzy or "fuzzy" in flags

    def _message(self, text: str, *, is_obsolete: bool) -> Iterator[_Entry]:
        decoded, reason = self._decode(text)
        place = 0
        while place < len(decoded):
            token = _TOKEN.match(decoded, place)
            if token is None:
                if place == 0 and self._entry.is_complete and not decoded.startswith('"'):
                    yield self._finish()
                reason = reason or _SYNTAX
                break
            place = token.end()
            if token[1]:
                if self._begins_entry(token[1]):
                    yield self._finish()
                self._open(token[1], is_obsolete=is_obsolete)
            elif token[2] is not None:
                self._add(token[2])
        self._entry.reason = self._entry.reason or reason
        self._entry.is_bad_utf8 |= LONE_SURROGATE.search(decoded) is not None

    def _begins_entry(self, keyword: str) -> bool:
        if keyword == "msgctxt":
            return bool(self._entry.texts) or self._entry.is_garbage
        is_over = self._entry.is_complete or self._entry.is_garbage
        return keyword == "msgid" and (is_over or "msgid" in self._entry.texts)

    def _open(self, keyword: str, *, is_obsolete: bool) -> None:
        entry = self._entry
        is_out_of_place = keyword in entry.texts or (
            keyword not in ("msgctxt", "msgid", "domain") and "msgid" not in entry.texts
        )
        if is_out_of_place:
            entry.reason = entry.reason or _SYNTAX
        entry.keyword = keyword
        entry.is_obsolete = entry.is_obsolete or is_obsolete
        if keyword != "domain":
            entry.texts.setdefault(keyword, [])

    def _add(self, text: str) -> None:
        entry = self._entry
        entry.size += len(text)
        if not entry.keyword:
            entry.reason = entry.reason or _SYNTAX
        elif entry.size > LONGEST:
            entry.reason = "entry too long"
        elif entry.keyword != "domain":
            entry.texts[entry.keyword].append(text)

    def _decode(self, text: str) -> tuple[str, str | None]:
        """Give the line as the header says it is encoded, and what is wrong with it."""
        reason = NUL if "\0" in text else None
        # ISO-2022 writes everything in ASCII, after an escape character.
        if self._charset == "utf-8" or (text.isascii() and "\x1b" not in text):
            return text, reason
        try:
            return text.encode("utf-8", "surrogateescape").decode(self._charset), reason
        except UnicodeDecodeError:
            return text, "not in the charset of the header"


def _charset(header: str, path: Path) -> str:
    found = _CHARSET.search(header)
    name = found[1].lower() if found else "utf-8"
    if name in ("charset", "utf-8", "utf8"):  # `charset=CHARSET` stands in every new template.
        return "utf-8"
    try:
        # Only encodings in which the file's own syntax reads the same, and no tricks as UTF-7.
        is_usable = _SAMPLE.decode(name) == _SAMPLE.decode("ascii")
    except (LookupError, UnicodeError, ValueError):
        is_usable = False
    if not is_usable:
        raise DataError(
            f"the header of {path} says charset={name[:40]}, which cannot be read here.\n"
            f"Type: msgconv -t UTF-8 {path} -o new-file.po"
        )
    return name


def _plural_forms(header: str) -> tuple[int, int]:
    """Give the numbers of the forms for 1 and for 5; the first and the last if nobody says."""
    found = _PLURAL_FORMS.search(header)
    if not found:
        return 0, -1
    try:
        return _Expression(found[1], 1).value(), _Expression(found[1], 5).value()
    except (ArithmeticError, IndexError, ValueError):
        return 0, -1


class _Expression:
    """Computes the C expression of `Plural-Forms`, which comes from outside: no `eval`."""

    _TOKENS = re.compile(r"\d{1,9}|n|[<>=!]=|&&|\|\||[-+*/%<>!?:()]")
    _LEVELS = (
        {"||": or_},
        {"&&": and_},
        {"==": eq, "!=": ne},
        {"<": lt, ">": gt, "<=": le, ">=": ge},
        {"+": add, "-": sub},
        {"*": mul, "/": floordiv, "%": mod},
    )
    _MOST_TOKENS = 200
    _DEEPEST = 20

    def __init__(self, expression: str, n: int) -> None:
        self._tokens: list[str] = self._TOKENS.findall(expression)
        if "".join(self._tokens) != "".join(expression.split()):
            raise ValueError("unknown sign")
        if len(self._tokens) > self._MOST_TOKENS:
            raise ValueError("too long")
        self._tokens.append("")
        self._place = 0
        self._depth = 0
        self._n = n

    def value(self) -> int:
        result = self._choice()
        if self._tokens[self._place] or result < 0:
            raise ValueError("not an expression")
        return result

    def _accept(self, *signs: str) -> str:
        found = self._tokens[self._place]
        if found not in signs:
            return ""
        self._place += 1
        return found

    def _choice(self) -> int:
        self._depth += 1
        if self._depth > self._DEEPEST:
            raise ValueError("too deep")
        result = self._level(0)
        if self._accept("?"):
            yes = self._choice()
            if not self._accept(":"):
                raise ValueError("no alternative")
            no = self._choice()
            result = yes if result else no
        self._depth -= 1
        return result

    def _level(self, level: int) -> int:
        if level == len(self._LEVELS):
            return self._atom()
        signs = self._LEVELS[level]
        result = self._level(level + 1)
        while sign := self._accept(*signs):
            right = self._level(level + 1)
            if level < 2:
                result, right = bool(result), bool(right)
            result = int(signs[sign](result, right))
        return result

    def _atom(self) -> int:
        if self._accept("!"):
            return int(not self._atom())
        if self._accept("("):
            result = self._choice()
            if not self._accept(")"):
                raise ValueError("no closing bracket")
            return result
        if self._accept("n"):
            return self._n
        token = self._tokens[self._place]
        self._place += 1
        return int(token)
