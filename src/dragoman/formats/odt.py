"""OpenDocument texts (ODT).

A paragraph or heading is a unit: in the text, tables, frames, notes, comments, headers and footers.
Spans and links are pairs of codes; pictures, fields, notes and bookmarks are single codes. Tabs,
line breaks and repeated spaces, which are elements in the file, are characters of the text. Deleted
text is not translated. Only changed paragraphs are rebuilt, and only parts with such paragraphs are
compressed anew; all other members of the zip file are copied.

Spreadsheets and presentations (ODS, ODP) are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dragoman.formats.base.document import Code, Content, merged, numbered
from dragoman.formats.base.office import (
    Holder,
    Node,
    OfficeDocument,
    Paragraph,
    ParagraphReader,
)
from dragoman.formats.base.xml_content import XmlFile
from dragoman.formats.base.xml_events import XmlEvent

_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_MARKS = re.compile(
    "(bookmark|reference-mark|change|alphabetical-index-mark|toc-mark|user-index-mark)(-start|-end)?"
)
_SPACES = re.compile(r"[ \t\n]+")
_SPECIAL = re.compile(r"( +|\t|\n)")
_ELEMENTS = {"\t": "tab", "\n": "line-break"}
_MOST_SPACES = 10_000


class OdtDocument(OfficeDocument):
    """An OpenDocument text."""

    extensions = (".odt", ".ott")
    main_parts = re.compile(r"content\.xml")
    part_names = re.compile(r"(content|styles)\.xml")

    def reader(self, file: XmlFile) -> ParagraphReader:
        """Return the reader of a part."""
        return _OdtReader(file)


class _OdtReader(ParagraphReader):
    def __init__(self, file: XmlFile) -> None:
        super().__init__(file)
        self._prefix: str | None = None

    def is_paragraph(self, event: XmlEvent) -> bool:
        return self.local(event) in ("p", "h")

    def is_skipped(self, event: XmlEvent) -> bool:
        return self.local(event) == "tracked-changes"

    def local(self, event: XmlEvent) -> str:
        """Return the name of an element about text without its prefix, else an empty text."""
        if self._prefix is None:  # The first element declares all namespaces.
            names = [name for name, value in event.attributes.items() if value == _NAMESPACE]
            prefix = names[0].removeprefix("xmlns").removeprefix(":") if names else "\0"
            self._prefix = f"{prefix}:" if prefix else ""
        local = event.name.removeprefix(self._prefix)
        return local if event.name.startswith(self._prefix) and ":" not in local else ""

    def paragraph(self, node: Node) -> Paragraph:
        collector = _Collector(self)
        content = numbered(merged(collector.parts(node)))
        return Paragraph(
            content,
            node.start.end,
            node.end.start,
            node.start.line,
            tuple(collector.holders),
            self,
        )

    def markup(self, content: Content, base: str, line: int) -> str:
        markup: list[str] = []
        is_space = True
        """Whether a space that follows would be dropped by a reader of the file."""
        for index, part in enumerate(content):
            if isinstance(part, Code):
                markup.append(part.raw)
                continue
            pieces = [piece for piece in _SPECIAL.split(part) if piece]
            for number, piece in enumerate(pieces):
                is_last = index == len(content) - 1 and number == len(pieces) - 1
                if piece[0] == " ":
                    plain = "" if is_space or is_last else " "
                    count = len(piece) - len(plain)
                    markup.append(plain + self._spaces(count))
                    is_space = count == 0
                elif piece in _ELEMENTS:
                    markup.append(f"<{self._prefix}{_ELEMENTS[piece]}/>")
                    is_space = False
                else:
                    markup.append(self.file.markup((piece,), line))
                    is_space = False
        return "".join(markup)

    def _spaces(self, count: int) -> str:
        if count == 0:
            return ""
        number = f' {self._prefix}c="{count}"' if count > 1 else ""
        return f"<{self._prefix}s{number}/>"


class _Collector:
    """Collects the content of one paragraph."""

    def __init__(self, reader: _OdtReader) -> None:
        self._reader = reader
        self._file = reader.file
        self._codes: Counter[str] = Counter()
        self._pairs = 0
        self._is_space = True
        """Whether a space that follows is dropped."""
        self.holders: list[Holder] = []

    def parts(self, node: Node) -> Iterator[str | Code]:
        for child in node.children:
            if isinstance(child, str):
                yield self._collapsed(child)
            else:
                yield from self._element(child)

    def _collapsed(self, text: str) -> str:
        text = _SPACES.sub(" ", text)
        if self._is_space:
            text = text.removeprefix(" ")
        self._is_space = text.endswith(" ") if text else self._is_space
        return text

    def _element(self, node: Node) -> Iterator[str | Code]:
        name = self._reader.local(node.start)
        character = self._character(node, name)
        if character is not None:
            self._is_space = False
            yield character
        elif name in ("span", "a") and node.start.kind == "start":
            self._pairs += 1
            pair = self._pairs
            yield Code(self._file.raw(node.start.start, node.start.end), "open", pair)
            yield from self.parts(node)
            yield Code(self._file.raw(node.end.start, node.end.end), "close", pair)
        elif name != "soft-page-break":
            raw, holder = self._reader.holder(node, "", "", self._codes)
            if holder:
                self.holders.append(holder)
            if not _MARKS.fullmatch(name):
                self._is_space = False
            yield Code(raw)

    def _character(self, node: Node, name: str) -> str | None:
        if name == "s":
            count = next((v for k, v in node.start.attributes.items() if k.endswith(":c")), "1")
            # Python converts 4,300 digits at most.
            return " " * min(_MOST_SPACES, int(count[:9])) if count.isdecimal() else " "
        return next((one for one, element in _ELEMENTS.items() if element == name), None)
