"""Events of an XML file with their byte offsets, from a file that is not trusted.

The parser is Expat (standard library), the only one here that tells where in the file an event is.
It streams. Entities are never expanded: an entity reference in text is an event of its own, and a
declaration that uses another entity is refused, so that attribute values cannot grow. Nothing
outside the file is read. Elements cannot nest deeper than `MAX_DEPTH`, and a tag or a comment
cannot be longer than `MAX_TOKEN_BYTES`, because Expat keeps it in memory.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple
from xml.parsers import expat

from dragoman.errors import DataError

MAX_DEPTH = 200
MAX_TOKEN_BYTES = 10 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024
_MAX_JOINED_CHARACTERS = 4096
_DECLARED_ENCODING = re.compile(rb"^<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)")
_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})

EventKind = Literal[
    "start",
    "end",
    "empty",
    "text",
    "cdata_start",
    "cdata_end",
    "entity",
    "entity_declaration",
    "other",
]
"""`empty` is `<br/>`; `other` is a comment, a processing instruction, the declaration, the DTD."""


class MalformedXmlError(DataError):
    """A file that is not XML from some line on."""


class XmlEvent(NamedTuple):
    """One token of the file: bytes `start` to `end`."""

    kind: EventKind
    start: int
    end: int
    line: int
    name: str = ""
    """Of an element, as written: with its namespace prefix."""
    attributes: Mapping[str, str] = _NO_ATTRIBUTES
    text: str = ""
    """Of a text event, without escapes."""

    @property
    def local_name(self) -> str:
        """The name of the element without its namespace prefix."""
        return self.name.rpartition(":")[2]


def xml_encoding(data: bytes) -> str:
    """Return the encoding of an XML file: from its byte order mark or its declaration."""
    head = data[:1000]
    for mark, encoding in (
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (b"<\0", "utf-16-le"),
        (b"\0<", "utf-16-be"),
    ):
        if head.startswith(mark):
            return encoding
    match = _DECLARED_ENCODING.match(head.removeprefix(codecs.BOM_UTF8))
    return match[1].decode().lower() if match else "utf-8"


def root_name(data: bytes) -> str:
    """Return the name of the root element without its prefix; empty if there is none."""
    try:
        events = xml_events(data, "")
        return next(event.local_name for event in events if event.kind in ("start", "empty"))
    except (DataError, StopIteration):
        return ""


def xml_events(data: bytes, name: str) -> Iterator[XmlEvent]:
    """Yield all events of a file; together they cover every byte. `name` is used in errors."""
    # `bytes` is for a memory map, which gives a slice of another type in later versions of Python.
    chunks = (
        bytes(data[begin : begin + _CHUNK_BYTES]) for begin in range(0, len(data), _CHUNK_BYTES)
    )
    return stream_events(chunks, name)


def stream_events(blocks: Iterable[bytes], name: str) -> Iterator[XmlEvent]:
    """Yield all events of a file that is read in blocks."""
    scanner = _Scanner(name)
    for block in blocks:
        for begin in range(0, len(block), _CHUNK_BYTES):
            yield from scanner.feed(block[begin : begin + _CHUNK_BYTES])
    yield from scanner.feed(b"", is_last=True)


class _Scanner:
    """Collects the events of Expat; an event ends where the next one begins."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._size = 0
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._unfinished_bytes = 0
        self._pending: list[tuple[EventKind, int, int, str, Mapping[str, str], str]] = []
        """Kind, start, line, name, attributes, text of the events that are not yielded yet."""
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = False
        parser.ordered_attributes = False
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = lambda: self._add("cdata_start")
        parser.EndCdataSectionHandler = lambda: self._add("cdata_end")
        parser.CommentHandler = lambda _: self._add("other")
        parser.ProcessingInstructionHandler = lambda *_: self._add("other")
        parser.EntityDeclHandler = self._entity_declaration
        # With this handler, Expat passes entity references on instead of expanding them.
        parser.DefaultHandler = self._default

    def feed(self, chunk: bytes, *, is_last: bool = False) -> Iterator[XmlEvent]:
        """Yield the events that are complete, also those before an error."""
        self._size += len(chunk)
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        is_waiting = self._held_bytes < self._unfinished_bytes
        is_too_long = self._held_bytes + self._unfinished_bytes > MAX_TOKEN_BYTES
        if is_waiting and not is_too_long and not is_last:
            return
        try:
            self._parse(b"".join(self._held), is_last=is_last)
        except DataError:
            # The token with the error ends the event before it.
            self._add("other")
            yield from self._take()
            raise
        if is_last:
            self._pending.append(("other", self._size, 0, "", _NO_ATTRIBUTES, ""))
        self._held.clear()
        self._held_bytes = 0
        # Expat scans an unfinished token again and again: it gets twice as many bytes each time.
        self._unfinished_bytes = self._size - self._parser.CurrentByteIndex
        yield from self._take()

    def _parse(self, chunk: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(chunk, is_last)
        except (expat.ExpatError, LookupError, ValueError) as error:
            what = "unknown encoding"
            if isinstance(error, expat.ExpatError):
                what = expat.errors.messages.get(error.code, "syntax error")
            raise MalformedXmlError(
                f"{self._name} is not well-formed XML in line "
                f"{self._parser.ErrorLineNumber:,}: {what}. "
                "Correct the file, or save it again with the program that wrote it"
            ) from None
        begin = self._pending[-1][1] if self._pending else 0
        if self._size - begin > MAX_TOKEN_BYTES:
            raise DataError(
                f"{self._name} contains a tag or a comment longer than {MAX_TOKEN_BYTES:,} bytes "
                f"in line {self._parser.CurrentLineNumber:,}, expected shorter ones: the file is "
                "refused"
            )

    def _take(self) -> Iterator[XmlEvent]:
        """Yield the events that are complete so far: the next one is known."""
        pending = self._pending
        # A start tag may turn out to be an empty element when the event after its end is known.
        is_open = [event[0] for event in pending[-2:]] == ["start", "end"]
        count = len(pending) - 1 - is_open
        events: list[XmlEvent] = []
        for index in range(count):
            kind, start, line, name, attributes, text = pending[index]
            following = pending[index + 1]
            end = following[1]
            if kind == "start" and following[0] == "end" and end == pending[index + 2][1]:
                kind = "empty"
            # Expat reports `<br/>` as a start and an end that has no characters.
            if kind != "end" or start != end:
                events.append(XmlEvent(kind, start, end, line, name, attributes, text))
        if count > 0:
            self._pending = pending[count:]
        return iter(events)

    def _add(
        self,
        kind: EventKind,
        name: str = "",
        attributes: Mapping[str, str] = _NO_ATTRIBUTES,
        text: str = "",
    ) -> None:
        parser = self._parser
        self._pending.append(
            (kind, parser.CurrentByteIndex, parser.CurrentLineNumber, name, attributes, text)
        )

    def _text(self, text: str) -> None:
        if self._pending:
            kind, start, line, name, attributes, previous = self._pending[-1]
            # Expat reports every newline on its own.
            if kind == "text" and len(previous) < _MAX_JOINED_CHARACTERS:
                self._pending[-1] = (kind, start, line, name, attributes, previous + text)
                return
        self._add("text", text=text)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DataError(
                f"{self._name} nests elements deeper than {MAX_DEPTH} levels in line "
                f"{self._parser.CurrentLineNumber:,}, expected fewer: the file is refused"
            )
        self._add("start", name, attributes)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._add("end", name)

    def _default(self, raw: str) -> None:
        is_reference = raw.startswith("&") and raw.endswith(";") and self._depth > 0
        self._add("entity" if is_reference else "other", text=raw if is_reference else "")

    def _entity_declaration(
        self,
        name: str,
        is_parameter: int,
        value: str | None,
        base: str | None,
        system_id: str | None,
        public_id: str | None,
        notation: str | None,
    ) -> None:
        self._add("entity_declaration", name)
        if value is not None and ("&" in value or "%" in value):
            raise DataError(
                f"{self._name} declares the entity {name[:50]!r} by means of other entities, in "
                f"line {self._parser.CurrentLineNumber:,}; expected plain text: such entities can "
                "expand without limit. Expand them in the file first"
            )
