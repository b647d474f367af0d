"""GNU gettext: catalogs (`.po`) and templates (`.pot`) of the messages of a program.

A unit is one message, or one plural form of a message. The source of the form for n = 1 is
`msgid`, that of all other forms is `msgid_plural`; a language with one form gets `msgid_plural`.
The key is the number of the entry, with the form in brackets: `12[0]`. Fuzzy entries need review.
The header, obsolete entries (`#~`) and comments are not units; comments become the note.

Writing changes the `msgstr` of an entry, in lines of 79 columns like gettext, and its flag
`fuzzy`. With the flag, the previous message (`#|`) is removed, too. All other bytes stay. When
something is written, a header with the gaps of a template (`charset=CHARSET`, no language, no
plural rule) is completed, because the new texts could not be read without it.

The number of plural forms is the one in the header, else that of the target language, else that
of the entry.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import Document, State, Target, Unit, merged, plain_text
from dragoman.formats.base.edits import Edit, apply_edits
from dragoman.formats.base.plural_forms import plural_form
from dragoman.formats.base.plural_rules import plural_rule
from dragoman.formats.base.po_entries import (
    SYNTAX,
    PoEntries,
    PoEntry,
    PoLine,
    PoText,
    flags_in,
    header_language,
    header_plural_forms,
)
from dragoman.formats.base.po_wrap import strings
from dragoman.formats.base.text_file import mark_of


@dataclass(frozen=True, slots=True)
class _Form:
    """The message, or one of its plural forms."""

    keyword: str
    source: str


_PREFIX = re.compile(r'[^"]*(?=")')
_MAX_FORMS = 10
_TEMPLATE_CHARSET = re.compile(r"(?<=charset=)CHARSET\b")
_TEMPLATE_LANGUAGE = re.compile(r"(?<=Language: )(?=\\n)")
_TEMPLATE_FORMS = re.compile(r"nplurals=INTEGER; plural=EXPRESSION;")


class Po(Document):
    """A catalog with the source and the target of each message."""

    extensions: ClassVar[tuple[str, ...]] = (".po", ".pot")
    is_bilingual: ClassVar[bool] = True
    language_place: ClassVar[str] = "the line `Language:` of its header"
    review_mark: ClassVar[str] = "#, fuzzy"

    def stated_languages(self) -> tuple[str, str]:
        """Return the language of the header; a catalog does not name that of its messages."""
        header = next(iter(PoEntries(_lines(self.data, self.name), self.name)), None)
        is_header = header is not None and header.is_header and "msgstr" in header.texts
        return "", header_language(header.forms()[0]) if header and is_header else ""

    def units(self) -> Iterator[Unit]:
        """Yield a unit per message, or one per plural form."""
        for number, entry, forms in self._messages():
            for form in forms:
                yield self._unit(number, entry, form)

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the catalog with the translations."""
        return apply_edits(self.data, self._edits(iter(targets)))

    def _messages(self) -> Iterator[tuple[int, PoEntry, list[_Form]]]:
        """Yield each translatable entry with its number and its forms; raise if one is invalid."""
        number = 0
        count, expression = self._default_forms()
        for entry in PoEntries(_lines(self.data, self.name), self.name):
            self._check(entry)
            if entry.is_header:
                stated_count, stated_expression = header_plural_forms(entry.forms()[0])
                if stated_count is not None and stated_count <= _MAX_FORMS:
                    count, expression = stated_count, stated_expression
            elif not entry.is_obsolete:
                number += 1
                yield number, entry, _forms(entry, count, expression)

    def _default_forms(self) -> tuple[int | None, str]:
        return header_plural_forms(f"Plural-Forms: {plural_rule(self.target_language)}")

    def _check(self, entry: PoEntry) -> None:
        if entry.reason:
            expected = (
                'a comment, or one of msgctxt, msgid, msgid_plural, msgstr with text in "quotes"'
                if entry.reason == SYNTAX
                else "text in the encoding that the header names"
            )
            raise self._error(entry.line, entry.reason, expected)
        last_line = 0
        for keyword, text in entry.texts.items():
            if not text.strings:
                raise self._error(text.first.number, keyword, f'{keyword} with text in "quotes"')
            if text.first.number <= last_line:
                raise self._error(last_line, "two keywords", "one keyword per line")
            last_line = text.last.number
        forms = [keyword for keyword in entry.texts if keyword.startswith("msgstr")]
        expected_forms = (
            [f"msgstr[{form}]" for form in range(len(forms))]
            if "msgid_plural" in entry.texts
            else ["msgstr"]
        )
        if forms != expected_forms and not (entry.is_header or entry.is_obsolete):
            raise self._error(entry.line, ", ".join(forms), ", ".join(expected_forms))

    def _error(self, line: int, actual: str, expected: str) -> DataError:
        return DataError(
            f"{self.name} is not a valid PO file in line {line:,}: found {actual}, expected "
            f"{expected}.\nCorrect the file; to check it, type: msgfmt -c {shlex.quote(self.name)}"
        )

    def _unit(self, number: int, entry: PoEntry, form: _Form) -> Unit:
        current = entry.text(form.keyword) if form.keyword in entry.texts else ""
        state: State = "untranslated"
        if current:
            state = "needs_review" if entry.is_fuzzy else "translated"
        return Unit(
            key=f"{number}{form.keyword.removeprefix('msgstr')}",
            source=merged([form.source]),
            line=entry.line,
            target=(current,) if current else None,
            state=state,
            context=entry.text("msgctxt") if "msgctxt" in entry.texts else "",
            note=_note(entry),
        )

    def _edits(self, targets: Iterator[Target | None]) -> Iterator[Edit]:
        is_first = True
        for _, entry, forms in self._messages():
            of_entry = list(islice(targets, len(forms)))
            edits = self._entry_edits(entry, forms, of_entry)
            if edits and is_first:
                is_first = False
                yield from self._header_edits(before=edits[0].start)
            yield from edits
        if list(islice(targets, 1)):
            raise ValueError("more targets than units")

    def _entry_edits(
        self, entry: PoEntry, forms: list[_Form], targets: list[Target | None]
    ) -> list[Edit]:
        texts: dict[str, str] = {}
        for form, target in zip(forms, targets, strict=True):
            current = entry.text(form.keyword) if form.keyword in entry.texts else ""
            if target is not None and plain_text(target.content) != current:
                texts[form.keyword] = plain_text(target.content)
        is_reviewed = all(target is not None and not target.needs_review for target in targets)
        if not texts:
            is_confirmed = is_reviewed and entry.is_fuzzy and bool(targets)
            edits = list(_remove_fuzzy(self.data, entry)) if is_confirmed else []
            return sorted(edits, key=lambda edit: edit.start)
        # Forms that are missing in the file are added; empty ones beyond the last are removed.
        for form in forms:
            if form.keyword not in entry.texts:
                texts.setdefault(form.keyword, "")
        needs_review = any(target is not None and target.needs_review for target in targets)
        edits = self._text_edits(entry, forms, texts)
        if needs_review and not entry.is_fuzzy:
            edits.append(self._add_fuzzy(entry))
        elif is_reviewed and entry.is_fuzzy:
            edits += _remove_fuzzy(self.data, entry)
        return sorted(edits, key=lambda edit: (edit.start, edit.end))

    def _text_edits(self, entry: PoEntry, forms: list[_Form], texts: dict[str, str]) -> list[Edit]:
        wrap = not any("no-wrap" in flags_in(flags.text) for flags in _flag_lines(entry))
        edits: list[Edit] = []
        existing = [keyword for keyword in entry.texts if keyword.startswith("msgstr")]
        for keyword in existing:
            text = entry.texts[keyword]
            if keyword in texts:
                replacement = self._written(text, keyword, texts.pop(keyword), entry, wrap=wrap)
                edits.append(Edit(text.first.start, text.last.end, replacement))
            elif keyword not in {form.keyword for form in forms}:
                edits.append(Edit(text.first.start, text.last.end, b""))
        end = entry.texts[existing[-1]].last.end
        model = entry.texts[existing[0]]
        for keyword, text_to_add in texts.items():
            added = self._written(model, keyword, text_to_add, entry, wrap=wrap)
            if self.data[end - 1 : end] != b"\n":
                added = _newline(self.data, model.first) + added.rstrip(b"\r\n")
            edits.append(Edit(end, end, added))
        return edits

    def _written(
        self, text: PoText, keyword: str, value: str, entry: PoEntry, *, wrap: bool
    ) -> bytes:
        """Return the lines of a keyword, indented like the lines that they replace."""
        prefix_match = _PREFIX.match(text.first.text)
        prefix = prefix_match[0] if prefix_match else f"{keyword} "
        prefix = re.sub(r"msgstr(\[\d+\])?", keyword, prefix, count=1)
        last_match = _PREFIX.match(text.last.text) if text.last is not text.first else None
        indentation = last_match[0] if last_match else ""
        pieces = strings(value, len(prefix), len(indentation), wrap=wrap)
        lines = [f'{prefix}"{pieces[0]}"', *(f'{indentation}"{piece}"' for piece in pieces[1:])]
        newline = _newline(self.data, text.first)
        encoded = newline.join(self._encode(line, entry) for line in lines)
        # The end of the last line is copied: the file may end without a newline.
        last = self.data[text.last.start : text.last.end]
        return encoded + last[last.rindex(b'"') + 1 :]

    def _encode(self, line: str, entry: PoEntry) -> bytes:
        try:
            encoded = line.encode(entry.charset)
            if encoded.decode(entry.charset) == line and "\0" not in line:
                return encoded
            character = "\0" if "\0" in line else line
        except UnicodeEncodeError as error:
            character = line[error.start]
        raise DataError(
            f"the translation for {self.name}, line {entry.line:,}, contains {character[:40]!r}, "
            f"which the encoding of the file, {entry.charset}, does not have.\n"
            f"Type: msgconv -t UTF-8 {shlex.quote(self.name)} -o new-file.po"
        )

    def _add_fuzzy(self, entry: PoEntry) -> Edit:
        for line in _flag_lines(entry):
            flags = ", ".join(["fuzzy", *flags_in(line.text)])
            written = f"#, {flags}".encode("utf-8", "surrogateescape")
            return Edit(line.start, line.end, written + _end(self.data, line))
        # gettext writes the flags before the previous message.
        before = next(
            (line for line in entry.comments if line.text.strip().startswith("#|")),
            next(iter(entry.texts.values())).first,
        )
        return Edit(before.start, before.start, b"#, fuzzy" + _newline(self.data, before))

    def _header_edits(self, before: int) -> Iterator[Edit]:
        """Fill the gaps of a template, if the header is the first entry."""
        header = next(iter(PoEntries(_lines(self.data, self.name), self.name)))
        if (
            not header.is_header
            or "msgstr" not in header.texts
            or header.texts["msgstr"].last.end > before
        ):
            return
        text = header.texts["msgstr"]
        start, end = text.first.start, text.last.end
        written = self.data[start:end].decode("utf-8", "surrogateescape")
        completed = _TEMPLATE_CHARSET.sub("UTF-8", written, count=1)
        language = self.target_language.replace("-", "_")
        rule = plural_rule(language)
        if language and not header_language(header.forms()[0]):
            completed = _TEMPLATE_LANGUAGE.sub(language, completed, count=1)
        if rule:
            completed = _TEMPLATE_FORMS.sub(rule, completed, count=1)
        if completed != written:
            yield Edit(start, end, completed.encode("utf-8", "surrogateescape"))


def _lines(data: bytes, name: str) -> Iterator[PoLine]:
    mark, encoding = mark_of(data)
    if encoding not in ("", "utf-8"):
        raise DataError(
            f"{name} is encoded in {encoding.upper()}, expected UTF-8 or the charset of its header."
            f"\nType: iconv -f {encoding.upper()[:6]} -t UTF-8 {shlex.quote(name)} > new-file.po"
        )
    start, number = len(mark), 0
    while start < len(data):
        number += 1
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline + 1
        line = data[start:end].decode("utf-8", "surrogateescape").removesuffix("\n")
        yield PoLine(number, line, start, end)
        start = end


def _forms(entry: PoEntry, count: int | None, expression: str) -> list[_Form]:
    singular = entry.text("msgid")
    if "msgid_plural" not in entry.texts:
        return [_Form("msgstr", singular)]
    plural = entry.text("msgid_plural")
    in_file = entry.forms()
    # Translations beyond the stated number are kept: they are somebody's work.
    filled = max((form + 1 for form, text in enumerate(in_file) if text), default=0)
    number = len(in_file) if count is None else max(count, filled)
    for_one = (plural_form(expression, 1) if expression else 0) if number > 1 else None
    return [
        _Form(f"msgstr[{form}]", singular if form == for_one else plural) for form in range(number)
    ]


def _note(entry: PoEntry) -> str:
    """Return the comments of the translators and of the program, without the marks."""
    lines = []
    for line in entry.comments:
        raw = line.text.strip(" \t\f\v\r").encode("utf-8", "surrogateescape")
        text = raw.decode(entry.charset, "replace")
        if text == "#" or text.startswith(("# ", "#.")):
            lines.append(text[2:].strip())
    return "\n".join(lines).strip()


def _flag_lines(entry: PoEntry) -> list[PoLine]:
    return [line for line in entry.comments if line.text.strip(" \t\f\v\r").startswith("#,")]


def _remove_fuzzy(data: bytes, entry: PoEntry) -> Iterator[Edit]:
    """Remove the flag, and the previous message that it refers to."""
    for line in _flag_lines(entry):
        if "fuzzy" in (flags := flags_in(line.text)):
            others = ", ".join(flag for flag in flags if flag != "fuzzy")
            kept = f"#, {others}".encode("utf-8", "surrogateescape") + _end(data, line)
            yield Edit(line.start, line.end, kept if others else b"")
    for line in entry.comments:
        if line.text.strip(" \t\f\v\r").startswith("#|"):
            yield Edit(line.start, line.end, b"")


def _end(data: bytes, line: PoLine) -> bytes:
    """Return the newline of a line; nothing if the file ends there."""
    return data[line.start : line.end][len(data[line.start : line.end].rstrip(b"\r\n")) :]


def _newline(data: bytes, line: PoLine) -> bytes:
    """Return the newline that new lines get: that of a line, or of the file in its last line."""
    end = line.end if data[line.end - 1 : line.end] == b"\n" else data.find(b"\n") + 1
    return b"\r\n" if data[max(0, end - 2) : end] == b"\r\n" else b"\n"
