"""A text of a request as units, and back: plain text, or a fragment of HTML or XML.

A fragment is a piece of a page: it has no `<html>` and no encoding. Only the texts of its units
change. Tags, comments and everything else are copied, and text is escaped again, so that whatever a
model writes stays text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.formats.base.document import Code, Target, Unit
from dragoman.formats.base.edits import apply_edits
from dragoman.formats.base.escapes import Escapes
from dragoman.formats.base.html_elements import OPAQUE_ELEMENTS
from dragoman.formats.base.html_reader import HtmlReader, edits, units_of
from dragoman.formats.base.xml_fragment import Place, xml_places
from dragoman.text.spans import find_spans

_KEPT_ELEMENTS = OPAQUE_ELEMENTS | frozenset(
    ("address", "applet", "audio", "canvas", "embed", "time", "video")
)
"""Elements of HTML whose content is not translated; LibreTranslate keeps the same ones."""

_PARAGRAPH_BREAK = re.compile(r"(?>\r\n|\n|\r)[^\S\r\n]*+[\r\n]\s*+")

Write = Callable[[Sequence[Target | None]], str]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A text and its units."""

    text: str
    units: tuple[Unit, ...]
    write: Write
    """Returns the text with other contents of its units."""

    def join(self, targets: Sequence[Target | None]) -> str:
        """Return the text with the targets of its units; None leaves a unit as it is."""
        is_same = all(
            target is None or target.content == unit.source
            for unit, target in zip(self.units, targets, strict=True)
        )
        return self.text if is_same else self.write(targets)


def text_fragment(text: str, *, keeps_newlines: bool = True) -> Fragment:
    """Read a plain text; its paragraphs are units. Without `keeps_newlines` they are spaces."""
    places: list[Place] = []
    for start, end in _paragraphs(text) if keeps_newlines else [(0, len(text))]:
        paragraph = text[start:end]
        if paragraph and not paragraph.isspace():
            key = str(len(places) + 1)
            unit = Unit(key, (paragraph,), 1, collapses_space=not keeps_newlines)
            places.append(Place(unit, start, end))
    return _fragment(text, places, str)


def markup_fragment(
    text: str, *, kind: Literal["html", "xml"], ignored_tags: frozenset[str] = frozenset()
) -> Fragment:
    """Read a text with tags and references; the content of `ignored_tags` is copied."""
    ignored = frozenset(map(str.lower, ignored_tags))
    if kind == "html":
        return _html_fragment(text, ignored | _KEPT_ELEMENTS)
    return _fragment(text, xml_places(text, ignored), Escapes(text).escape)


def _paragraphs(text: str) -> list[tuple[int, int]]:
    """Split a text at empty lines that are not inside a protected span."""
    if "\n" not in text and "\r" not in text:
        return [(0, len(text))]
    breaks = [match.span() for match in _PARAGRAPH_BREAK.finditer(text)]
    if not breaks:
        return [(0, len(text))]
    spans = iter(find_spans(text))
    span = next(spans, None)
    ranges: list[tuple[int, int]] = []
    begin = 0
    for start, end in breaks:
        while span is not None and span.end <= start:
            span = next(spans, None)
        if span is None or span.start >= end:
            ranges.append((begin, start))
            begin = end
    return [*ranges, (begin, len(text))]


def _fragment(text: str, places: Sequence[Place], escape: Callable[[str], str]) -> Fragment:
    def write(targets: Sequence[Target | None]) -> str:
        parts: list[str] = []
        position = 0
        for place, target in zip(places, targets, strict=True):
            if target is None or target.content == place.unit.source:
                continue
            parts.append(text[position : place.start])
            parts += (
                part.raw if isinstance(part, Code) else escape(part) for part in target.content
            )
            position = place.end
        return "".join([*parts, text[position:]])

    return Fragment(text, tuple(place.unit for place in places), write)


class _FragmentEncoding:
    """A string instead of a page: every character can be written."""

    def __init__(self, text: str) -> None:
        self.data = text.encode("utf-8", "surrogatepass")
        self.start = 0
        self.is_xml = False
        self._escapes = Escapes(text)

    def decode(self, start: int, end: int) -> str:
        """Return the characters of a part."""
        return self.data[start:end].decode("utf-8", "surrogatepass")

    def encode(self, text: str) -> bytes:
        """Return text or markup as bytes."""
        return text.encode("utf-8", "surrogatepass")

    def escape(self, text: str) -> str:
        """Return text as the content of an element."""
        return self._escapes.escape(text)


def _html_fragment(text: str, kept: frozenset[str]) -> Fragment:
    reader = HtmlReader(_FragmentEncoding(text), kept=kept, closes_empty=True)
    groups = list(reader.groups())

    def write(targets: Sequence[Target | None]) -> str:
        changes = edits(reader, groups, iter(targets))
        return b"".join(apply_edits(reader.data, changes)).decode("utf-8", "surrogatepass")

    return Fragment(text, tuple(units_of(groups)), write)
