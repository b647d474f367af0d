"""Inline content of XML formats: markup becomes codes, and a content becomes markup again.

Character references and CDATA sections become text. Entity references, comments and processing
instructions become single codes. A start tag and its end tag become a pair of codes. An element
that a format declares opaque becomes one code with everything inside it.

Text is written with escapes, in the encoding of the file. A character that the encoding does not
have becomes a character reference. A character that XML does not allow is an error.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, CodeKind, Content, merged
from dragoman.formats.base.edits import Edit
from dragoman.formats.base.xml_events import XmlEvent, xml_encoding, xml_events

_HEAD_BYTES = 64 * 1024
# Expat reads one byte per character in other encodings than UTF-8 and UTF-16. Codecs with escapes
# or states would decode the same bytes differently.
_ENCODINGS = re.compile(r"utf-8|utf-16(-[lb]e)?|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|tis-620")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTE = re.compile(r"""\s+([^\s=/>"']+)\s*=\s*("[^"]*"|'[^']*')""")
_END_OF_TAG = re.compile(r"\s*/?>$")


@dataclass(frozen=True, slots=True)
class InlineRules:
    """How a format marks its inline codes."""

    is_opaque: Callable[[XmlEvent], bool] = lambda event: False
    """Whether an element is one code together with its content."""
    role: Callable[[XmlEvent], tuple[CodeKind, str]] = lambda event: ("single", "")
    """Of an opaque or empty element: whether it opens or closes a pair, and the pair's name."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element and the events inside it."""

    start: XmlEvent
    inside: list[XmlEvent]
    end: XmlEvent
    """The end tag; of an empty element, the same as the start."""

    @property
    def is_cdata(self) -> bool:
        """Whether the whole content is one CDATA section."""
        kinds = [event.kind for event in self.inside]
        return kinds[:1] == ["cdata_start"] and kinds.index("cdata_end") == len(kinds) - 1

    @property
    def text(self) -> str:
        """The text with that of all elements inside."""
        return "".join(event.text for event in self.inside if event.kind == "text")


def read_element(start: XmlEvent, events: Iterator[XmlEvent], limit: int | None = None) -> Element:
    """Read up to the end of an element; events that begin after `limit` are not kept."""
    if start.kind == "empty":
        return Element(start, [], start)
    inside: list[XmlEvent] = []
    depth = 1
    for event in events:
        if event.kind == "start":
            depth += 1
        elif event.kind == "end":
            depth -= 1
            if depth == 0:
                return Element(start, inside, event)
        if limit is None or event.start < limit:
            inside.append(event)
    raise AssertionError("the parser raises an error for an element without an end")


def indentation_of(event: XmlEvent) -> str:
    """Return the last newline and the spaces after it, if an event is nothing but white space."""
    if event.kind != "text" or not event.text.isspace() or "\n" not in event.text:
        return ""
    return event.text[event.text.rindex("\n") :]


class XmlFile:
    """The bytes of an XML file and its encoding."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        declared = xml_encoding(data)
        try:
            self.encoding = codecs.lookup(declared).name
        except LookupError:
            self.encoding = ""
        if not _ENCODINGS.fullmatch(self.encoding):
            raise DataError(
                f"{name} is encoded in {declared[:50]}, expected UTF-8, UTF-16 or an encoding with "
                "one byte per character. Convert the file to UTF-8, also in its first line"
            )
        head = data[:_HEAD_BYTES].decode(self.encoding, "replace")
        self.newline = "\r\n" if "\r\n" in head else "\n"

    def events(self) -> Iterator[XmlEvent]:
        """Yield the events of the file."""
        return xml_events(self.data, self.name)

    def raw(self, start: int, end: int) -> str:
        """Return the characters of a place as they are."""
        try:
            return bytes(self.data[start:end]).decode(self.encoding)
        except UnicodeDecodeError:
            raise DataError(
                f"{self.name} contains bytes that are not {self.encoding}, at byte {start:,}. "
                "Save it again in the encoding that its first line states"
            ) from None

    def encode(self, markup: str) -> bytes:
        """Return the bytes of markup."""
        return markup.encode(self.encoding, "xmlcharrefreplace")

    def markup(self, content: Content, line: int, *, as_cdata: bool = False) -> str:
        """Return a content as XML; `line` is that of the unit, for errors."""
        self._check(content, line)
        if as_cdata and len(content) == 1 and isinstance(content[0], str):
            text = content[0]
            if "\r" not in text and self._has_all(text):
                text = text.replace("]]>", "]]]]><![CDATA[>")
                return f"<![CDATA[{self.lines(text)}]]>"
        return "".join(
            self.lines(escape_text(part)) if isinstance(part, str) else part.raw for part in content
        )

    def lines(self, text: str) -> str:
        """Return text with the newlines of the file."""
        return text if self.newline == "\n" else text.replace("\n", self.newline)

    def _has_all(self, text: str) -> bool:
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def _check(self, content: Content, line: int) -> None:
        open_tags: list[int] = []
        for part in content:
            if isinstance(part, str):
                if match := _FORBIDDEN.search(part):
                    raise DataError(
                        f"the translation for line {line:,} of {self.name} contains the character "
                        f"U+{ord(match[0]):04X}, which XML does not allow. Remove it"
                    )
            elif part.kind == "open" and "</" not in part.raw and not part.raw.endswith("/>"):
                open_tags.append(part.pair)
            elif part.raw.startswith("</") and (not open_tags or open_tags.pop() != part.pair):
                open_tags = [0]
                break
        if open_tags:
            raise DataError(
                f"the tags in the translation for line {line:,} of {self.name} do not nest, "
                "expected an end tag for every start tag, in the opposite order"
            )


def content_edit(element: Element, content: Content, file: XmlFile, tag: str = "") -> Edit:
    """Return the edit that replaces the content of an element; `tag` replaces its start tag."""
    start = element.start
    markup = file.markup(content, start.line, as_cdata=element.is_cdata)
    if start.kind == "empty":
        tag = opened(tag or file.raw(start.start, start.end))
        return Edit(start.start, start.end, file.encode(f"{tag}{markup}</{start.name}>"))
    begin = start.start if tag else start.end
    return Edit(begin, element.end.start, file.encode(tag + markup))


def escape_text(text: str) -> str:
    """Return text with the escapes of XML."""
    for character, reference in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("\r", "&#13;"),
    ):
        if character in text:
            text = text.replace(character, reference)
    return text


def with_attributes(tag: str, changes: Mapping[str, str | None]) -> str:
    """Return a start tag with changed attributes; None removes one, all others stay as they are."""
    missing = dict(changes)

    def change(match: re.Match[str]) -> str:
        name = match[1]
        if name not in changes:
            return match[0]
        value = missing.pop(name, None)
        if value is None:
            return ""
        return match[0][: match.start(2) - match.start()] + _quoted(value)

    tag = _ATTRIBUTE.sub(change, tag)
    added = "".join(
        f" {name}={_quoted(value)}" for name, value in missing.items() if value is not None
    )
    match = _END_OF_TAG.search(tag)
    position = match.start() if match else len(tag)
    return tag[:position] + added + tag[position:]


def opened(tag: str) -> str:
    """Return the start tag for an empty-element tag: `<a>` for `<a/>`."""
    return f"{tag[:-2].rstrip()}>" if tag.endswith("/>") else tag


def content_of(
    events: Iterable[XmlEvent], raw: Callable[[int, int], str], rules: InlineRules
) -> Content:
    """Return the content that complete events describe; `raw` gives the characters of a place."""
    return _Collector(raw, rules).collect(events)


class _Collector:
    """Builds a content from events."""

    def __init__(self, raw: Callable[[int, int], str], rules: InlineRules) -> None:
        self._raw = raw
        self._rules = rules
        self._parts: list[str | Code] = []
        self._pairs = 0
        self._open_tags: list[int] = []
        self._open_names: dict[str, int] = {}
        """The index of an opening code, by the name of its pair."""

    def collect(self, events: Iterable[XmlEvent]) -> Content:
        iterator = iter(events)
        for event in iterator:
            match event.kind:
                case "text":
                    self._parts.append(event.text)
                case "start" if self._rules.is_opaque(event):
                    self._whole(event, read_element(event, iterator).end.end)
                case "start":
                    self._pairs += 1
                    self._open_tags.append(self._pairs)
                    self._add(event, "open", self._pairs)
                case "end":
                    self._add(event, "close", self._open_tags.pop())
                case "empty":
                    self._whole(event, event.end)
                case "entity":
                    self._parts.append(Code(event.text))
                case "other":
                    self._add(event, "single", 0)
        for index in self._open_names.values():
            code = self._parts[index]
            assert isinstance(code, Code)
            self._parts[index] = Code(code.raw)
        return merged(self._parts)

    def _add(self, event: XmlEvent, kind: CodeKind, pair: int) -> None:
        self._parts.append(Code(self._raw(event.start, event.end), kind, pair))

    def _whole(self, event: XmlEvent, end: int) -> None:
        """Add an element that is one code."""
        kind, name = self._rules.role(event)
        pair = 0
        if kind == "open":
            if name in self._open_names:
                kind = "single"
            else:
                self._pairs += 1
                pair = self._pairs
                self._open_names[name] = len(self._parts)
        elif kind == "close":
            index = self._open_names.pop(name, None)
            opening = None if index is None else self._parts[index]
            if isinstance(opening, Code):
                pair = opening.pair
            else:
                kind = "single"
        self._parts.append(Code(self._raw(event.start, end), kind, pair))


def _quoted(value: str) -> str:
    return '"' + escape_text(value).replace('"', "&quot;") + '"'
