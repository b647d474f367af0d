"""What the office formats (DOCX, PPTX, XLSX, ODT) have in common: XML parts in a zip file.

A part has paragraphs. A paragraph is a unit. Its text can have a code that contains paragraphs
itself: a footnote, a text box. These are units of their own, before the unit around them, and the
code shows the place without their texts, so that their translation does not change it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.document import (
    Code,
    Content,
    Document,
    Target,
    Unit,
    merged,
    next_target,
)
from dragoman.formats.base.edits import Edit, apply_edits
from dragoman.formats.base.xml_content import Element, XmlFile, read_element
from dragoman.formats.base.xml_events import XmlEvent
from dragoman.formats.base.zip_members import ZipMembers

_ENCRYPTED_PART = b"encryption-data"


@dataclass(frozen=True, slots=True)
class Node:
    """An element of a paragraph."""

    start: XmlEvent
    end: XmlEvent
    children: tuple[Node | str, ...]
    """Elements and texts."""

    @property
    def name(self) -> str:
        """The name of the element, with its prefix."""
        return self.start.name

    @property
    def text(self) -> str:
        """The text directly in the element."""
        return "".join(child for child in self.children if isinstance(child, str))

    @property
    def elements(self) -> list[Node]:
        """The elements directly in the element."""
        return [child for child in self.children if isinstance(child, Node)]


@dataclass(frozen=True, slots=True)
class Holder:
    """A code that contains paragraphs."""

    code: str
    """The code as it is in the content, without the paragraphs."""
    start: int
    end: int
    before: str
    after: str
    """What the code has around the bytes from `start` to `end`."""
    paragraphs: tuple[Paragraph, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a part; the bytes from `start` to `end` are replaced."""

    content: Content
    start: int
    end: int
    line: int
    holders: tuple[Holder, ...]
    reader: ParagraphReader
    base: str = ""
    """The formatting of text outside of codes, in formats with runs."""


class ParagraphReader(ABC):
    """Reads the paragraphs of one part, and writes contents."""

    def __init__(self, file: XmlFile) -> None:
        self.file = file

    @abstractmethod
    def is_paragraph(self, event: XmlEvent) -> bool:
        """Return whether an element is a paragraph."""

    def is_skipped(self, event: XmlEvent) -> bool:
        """Return whether the paragraphs inside of an element are not units."""
        return False

    @abstractmethod
    def paragraph(self, node: Node) -> Paragraph:
        """Return a paragraph with all paragraphs inside of it."""

    @abstractmethod
    def markup(self, content: Content, base: str, line: int) -> str:
        """Return the XML of a content, in a paragraph with a base formatting."""

    def raw(self, node: Node) -> str:
        """Return the characters of an element."""
        return self.file.raw(node.start.start, node.end.end)

    def paragraphs(self) -> Iterator[Paragraph]:
        """Yield the paragraphs that are not inside of others."""
        events = self.file.events()
        for event in events:
            if event.kind == "start" and self.is_skipped(event):
                read_element(event, events, limit=0)
            elif event.kind == "start" and self.is_paragraph(event):
                yield self.paragraph(tree(read_element(event, events)))

    def inner_paragraphs(self, node: Node) -> Iterator[tuple[Node, Paragraph]]:
        """Yield the paragraphs inside of an element, but not those inside of them."""
        for child in node.elements:
            if self.is_paragraph(child.start):
                if child.start.kind == "start":
                    yield child, self.paragraph(child)
            else:
                yield from self.inner_paragraphs(child)

    def holder(
        self, node: Node, before: str, after: str, codes: Counter[str]
    ) -> tuple[str, Holder | None]:
        """Return an element as a code; `codes` has those that are already in the paragraph."""
        inner = list(self.inner_paragraphs(node))
        if not inner:
            return before + self.raw(node) + after, None
        places = [(child.start.start, child.end.end) for child, _ in inner]
        blank = code = before + self._without(node, places, "") + after
        while codes[code]:
            codes[blank] += 1
            code = before + self._without(node, places, f"<!--{codes[blank]}-->") + after
        codes[code] += 1
        paragraphs = tuple(paragraph for _, paragraph in inner)
        return code, Holder(code, node.start.start, node.end.end, before, after, paragraphs)

    def _without(self, node: Node, places: list[tuple[int, int]], mark: str) -> str:
        parts, position = [], node.start.start
        for start, end in places:
            parts += [self.file.raw(position, start), mark]
            position = end
        return "".join([*parts, self.file.raw(position, node.end.end)])


class OfficeDocument(Document):
    """A zip file with XML parts."""

    part_names: ClassVar[re.Pattern[str]]
    """The names of the parts with text."""
    main_parts: ClassVar[re.Pattern[str]]
    """A file has at least one of them."""

    @abstractmethod
    def reader(self, file: XmlFile) -> ParagraphReader:
        """Return the reader of a part."""

    def units(self) -> Iterator[Unit]:
        """Yield the paragraphs of all parts, in the order of the zip file."""
        members = self._members()
        for name in members.names:
            if self.part_names.fullmatch(name):
                count = 0
                for paragraph in self._reader(members, name).paragraphs():
                    for unit in _units(paragraph):
                        count += 1
                        yield replace(unit, key=f"{name}#{count}")

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the zip file; only parts with a changed unit are replaced."""
        members = self._members()
        iterator = iter(targets)

        def content(name: str) -> bytes | None:
            if not self.part_names.fullmatch(name):
                return None
            reader = self._reader(members, name)
            edits = [
                edit
                for paragraph in reader.paragraphs()
                for edit in _edits(paragraph, iterator, reader.file)
            ]
            return b"".join(apply_edits(reader.file.data, edits)) if edits else None

        yield from members.rewritten(content)
        if next(iterator, self) is not self:
            raise ValueError("more targets than units")

    def _members(self) -> ZipMembers:
        members = ZipMembers(self.data, self.name)
        if not any(self.main_parts.fullmatch(name) for name in members.names):
            kind = self.extensions[0].removeprefix(".").upper()
            raise DataError(
                f"{self.name} is a zip file, but no {kind} document: found no member that "
                f"matches {self.main_parts.pattern!r}"
            )
        manifest = "META-INF/manifest.xml"
        if manifest in members.names and _ENCRYPTED_PART in members.read(manifest):
            raise DataError(f"{self.name} is encrypted. Save it without a password")
        return members

    def _reader(self, members: ZipMembers, name: str) -> ParagraphReader:
        return self.reader(XmlFile(members.read(name), f"{self.name}/{name}"))


def tree(element: Element) -> Node:
    """Return an element with its content as a tree."""
    stack: list[tuple[XmlEvent, list[Node | str]]] = [(element.start, [])]
    for event in element.inside:
        if event.kind == "start":
            stack.append((event, []))
        elif event.kind == "end":
            start, children = stack.pop()
            stack[-1][1].append(Node(start, event, tuple(children)))
        elif event.kind == "empty":
            stack[-1][1].append(Node(event, event, ()))
        elif event.kind == "text":
            stack[-1][1].append(event.text)
    return Node(element.start, element.end, tuple(stack[0][1]))


def _units(paragraph: Paragraph) -> Iterator[Unit]:
    for holder in paragraph.holders:
        for inner in holder.paragraphs:
            yield from _units(inner)
    if _has_text(paragraph.content):
        yield Unit("", paragraph.content, paragraph.line)


def _has_text(content: Content) -> bool:
    return any(isinstance(part, str) for part in content)


def _edits(paragraph: Paragraph, targets: Iterator[Target | None], file: XmlFile) -> Iterator[Edit]:
    inner_edits: list[Edit] = []
    raw_codes: dict[str, str] = {}
    for holder in paragraph.holders:
        edits = [edit for inner in holder.paragraphs for edit in _edits(inner, targets, file)]
        raw_codes[holder.code] = holder.before + _patched(file, holder, edits) + holder.after
        inner_edits += edits
    target = next_target(targets) if _has_text(paragraph.content) else None
    if target is None or target.content == paragraph.content:
        yield from inner_edits
        return
    content = tuple(
        replace(part, raw=raw_codes.get(part.raw, part.raw)) if isinstance(part, Code) else part
        for part in merged(target.content)
    )
    _check_nesting(content, file.name, paragraph.line)
    markup = paragraph.reader.markup(content, paragraph.base, paragraph.line)
    yield Edit(paragraph.start, paragraph.end, file.encode(markup))


def _patched(file: XmlFile, holder: Holder, edits: list[Edit]) -> str:
    parts, position = [], holder.start
    for edit in edits:
        parts += [file.raw(position, edit.start), edit.replacement.decode(file.encoding)]
        position = edit.end
    return "".join([*parts, file.raw(position, holder.end)])


def _check_nesting(content: Content, name: str, line: int) -> None:
    pairs: list[int] = []
    for part in content:
        if isinstance(part, str) or part.kind == "single":
            continue
        if part.kind == "open":
            pairs.append(part.pair)
        elif not pairs or pairs.pop() != part.pair:
            pairs = [0]
            break
    if pairs:
        raise DataError(
            f"the codes in the translation for line {line:,} of {name} do not nest, expected a "
            "closing code for every opening code, in the opposite order"
        )
