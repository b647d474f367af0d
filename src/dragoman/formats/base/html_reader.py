"""Finds the texts of HTML and writes others: what `html.py` describes, for pages and fragments."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dragoman.formats.base.document import (
    Code,
    Content,
    Target,
    Unit,
    merged,
    next_target,
    plain_text,
)
from dragoman.formats.base.edits import Edit
from dragoman.formats.base.html_elements import (
    BLOCK_ELEMENTS,
    OPAQUE_ELEMENTS,
    Regions,
    may_have_texts,
    text_attributes,
)
from dragoman.formats.base.html_encoding import (
    KEPT_SPACE,
    Encoding,
    kept_space,
    unescape_attribute,
    unescape_text,
)
from dragoman.formats.base.html_tokens import (
    ESCAPABLE_RAW_ELEMENTS,
    InlinePiece,
    Token,
    collapse_opaque,
    html_tokens,
    needs_partner,
    partners,
)

_SPACE = " \t\n\f\r"
_BLANK = (
    _SPACE + "\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
)
"""A text of only these characters is no unit."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit is in the file."""

    unit: Unit
    start: int
    end: int
    quote: bytes = b""
    """Of an attribute: its quotation mark in the file."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag with texts in its attributes."""

    token: Token
    code: str
    """The tag as a code: without the texts."""
    attributes: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The tags of a segment that have texts in attributes, and the text of the segment."""

    tags: tuple[Tag, ...]
    text: Place | None = None


def units_of(groups: Iterable[Group]) -> Iterator[Unit]:
    """Yield the units of groups in the order of the file."""
    for group in groups:
        for tag in group.tags:
            yield from (place.unit for place in tag.attributes)
        if group.text is not None:
            yield group.text.unit


def edits(
    reader: HtmlReader, groups: Iterable[Group], targets: Iterator[Target | None]
) -> Iterator[Edit]:
    """Yield the changes of the file; `targets` has one entry per unit of the groups."""
    is_first = True
    for group in groups:
        changes: list[Edit] = []
        raw_tags: dict[str, str] = {}
        for tag in group.tags:
            values = [
                (place, reader.attribute(target.content, place))
                for place in tag.attributes
                if (target := _changed(targets, place))
            ]
            raw_tags[tag.code] = reader.raw(tag.token, values)
            changes += [
                Edit(place.start, place.end, reader.encoding.encode(value))
                for place, value in values
            ]
        text = group.text
        if text is not None and (target := _changed(targets, text)):
            written = reader.encoding.encode(reader.text(target.content, raw_tags))
            # The tags are inside of the text.
            changes = [Edit(text.start, text.end, written)]
        if changes and is_first:
            is_first = False
            yield from reader.language_edits(changes[0].start)
        yield from changes
    if next(targets, reader) is not reader:
        raise ValueError("more targets than units")


def _changed(targets: Iterator[Target | None], place: Place) -> Target | None:
    """Take the next target; return it if it changes the content."""
    target = next_target(targets)
    return None if target is None or target.content == place.unit.source else target


class HtmlReader:
    """Reads one page or fragment: from tokens to groups, and from contents back to bytes.

    `language` is set as that of the page; empty = it stays. The content of elements with the names
    in `kept` is not translated. With `closes_empty`, an element without content is one code.
    """

    def __init__(
        self,
        encoding: Encoding,
        language: str = "",
        *,
        kept: frozenset[str] = frozenset(),
        closes_empty: bool = False,
    ) -> None:
        self._language = language
        self.encoding = encoding
        self.data = encoding.data
        self._regions = Regions(self._values, kept)
        self._closes_empty = closes_empty
        self._page_tag: Token | None = None
        self._count = 0
        self._line, self._line_position = 1, 0

    def groups(self) -> Iterator[Group]:
        """Yield the texts in the order of the file."""
        run: list[InlinePiece] = []
        tokens = html_tokens(self.data, self.encoding.start, is_xml=self.encoding.is_xml)
        for token in tokens:
            if token.kind != "raw" and token.name not in BLOCK_ELEMENTS:
                run.append(self._piece(token))
                continue
            if run:
                yield from self._run_groups(run)
                run = []
            if token.kind != "raw":
                yield self._tag_group(self._piece(token))
            elif token.name in ESCAPABLE_RAW_ELEMENTS:
                content = Token("text", token.start, token.end)
                yield self._segment([self._piece(content)])
        yield from self._run_groups(run)

    def _piece(self, token: Token) -> InlinePiece:
        if token.kind == "start":
            if token.name == "html" and self._page_tag is None:
                self._page_tag = token
            region = self._regions.start(token)
            is_opaque = token.name in OPAQUE_ELEMENTS or not region.is_translatable
            # Texts of attributes have their own units, which need the start tag.
            is_closed = self._closes_empty and not may_have_texts(token)
            return InlinePiece(token, region.is_translatable, is_opaque, is_closed)
        if token.kind == "end":
            self._regions.end(token)
        return InlinePiece(token, self._regions.current.is_translatable)

    def _run_groups(self, run: list[InlinePiece]) -> Iterator[Group]:
        """Split a run of inline content at the tags that have no partner in it."""
        run = collapse_opaque(run)
        if len(run) == 1 and run[0].token.kind == "text":  # Most runs are only text.
            yield self._segment(run)
            return
        indexes = partners([piece.token for piece in run])
        begin = 0
        for index, piece in enumerate(run):
            if indexes[index] is None and needs_partner(piece.token):
                if begin < index:
                    yield self._segment(run[begin:index])
                yield self._tag_group(piece)
                begin = index + 1
        yield self._segment(run[begin:])

    def _tag_group(self, piece: InlinePiece) -> Group:
        return Group(tuple(self._tags([piece]).values()))

    def _segment(self, pieces: list[InlinePiece]) -> Group:
        """Return the texts of inline content in which every tag has its partner."""
        tags = self._tags(pieces)
        start, end = self._trimmed(pieces)
        parts: list[str | Code] = []
        open_numbers: list[int] = []
        count = 0
        has_text = False
        for index, piece in enumerate(pieces):
            token = piece.token
            if token.kind in ("text", "cdata") and piece.is_translatable:
                text, is_text = self._text(token, start, end)
                parts.append(text)
                has_text = has_text or is_text
                continue
            raw = tags[index].code if index in tags else self.raw(token)
            if token.kind == "end":
                parts.append(Code(raw, "close", open_numbers.pop()))
            elif needs_partner(token):
                count += 1
                open_numbers.append(count)
                parts.append(Code(raw, "open", count))
            else:
                parts.append(Code(raw))
        if not has_text:
            return Group(tuple(tags.values()))
        unit = self._unit(str(self._count + 1), merged(parts), start)
        return Group(tuple(tags.values()), Place(unit, start, end))

    def _trimmed(self, pieces: list[InlinePiece]) -> tuple[int, int]:
        """Return where a segment starts and ends, without the whitespace around it."""
        if not pieces:
            return 0, 0
        first, last = pieces[0].token, pieces[-1].token
        start, end = first.start, last.end
        if first.kind == "text":
            raw = self.data[first.start : first.end]
            start = first.end - len(raw.lstrip(_SPACE.encode()))
        if last.kind == "text":
            end = last.start + len(self.data[last.start : last.end].rstrip(_SPACE.encode()))
        return start, max(start, end)

    def _text(self, token: Token, start: int, end: int) -> tuple[str, bool]:
        """Return the text of a token inside a segment, and whether it is more than whitespace."""
        if token.kind == "cdata":
            raw = self.encoding.decode(token.start, token.end)
            text = raw.removeprefix("<![CDATA[").removesuffix("]]>")
            return text, text.strip(_BLANK) != ""
        raw = self.encoding.decode(max(token.start, start), min(token.end, end))
        text = unescape_text(raw)
        return text, text.strip(_BLANK) != "" or KEPT_SPACE.search(raw) is not None

    def _tags(self, pieces: list[InlinePiece]) -> dict[int, Tag]:
        """Return the start tags that have texts in attributes, by their index.

        A code has no text of an attribute, so that its translation does not change the code. Tags
        that differ only in such texts get a number instead of the text.
        """
        starts = [index for index, piece in enumerate(pieces) if piece.token.kind == "start"]
        places = {index: self._attributes(pieces[index]) for index in starts}
        if not any(places.values()):
            return {}
        counts = Counter(self.raw(pieces[index].token) for index in starts if not places[index])
        tags: dict[int, Tag] = {}
        for index in starts:
            token = pieces[index].token
            if not places[index]:
                continue
            blank = code = self.raw(token, [(place, _quoted("", place)) for place in places[index]])
            while counts[code]:
                number = str(counts[blank] + 1)
                code = self.raw(token, [(place, _quoted(number, place)) for place in places[index]])
                counts[blank] += 1
            counts[code] += 1
            tags[index] = Tag(token, code, tuple(places[index]))
        return tags

    def _attributes(self, piece: InlinePiece) -> list[Place]:
        """Return the texts in the attributes of a start tag."""
        token = piece.token
        if not token.attributes or not piece.is_translatable:
            return []
        places: list[Place] = []
        for attribute in text_attributes(token, self._values(token)):
            value = self.data[attribute.start : attribute.end]
            start = attribute.end - len(value.lstrip(_SPACE.encode()))
            end = max(start, attribute.start + len(value.rstrip(_SPACE.encode())))
            raw = self.encoding.decode(start, end)
            text = unescape_attribute(raw)
            if text.strip(_BLANK) or KEPT_SPACE.search(raw):
                unit = self._unit(f"{self._count + 1}@{attribute.name}", (text,), start)
                places.append(Place(unit, start, end, attribute.quote))
        return places

    def _unit(self, key: str, source: Content, position: int) -> Unit:
        # Attributes come before the text that they are in: the position can go back.
        begin, end = sorted((self._line_position, position))
        lines = self.data.count(b"\n", begin, end)
        self._line += lines if position >= self._line_position else -lines
        self._line_position = position
        self._count += 1
        collapses = "@" not in key and not self._regions.current.is_preserving
        return Unit(key, source, self._line, collapses_space=collapses)

    def _values(self, token: Token) -> Mapping[str, str]:
        """Return the decoded attributes of a start tag."""
        decode = self.encoding.decode
        return {
            attribute.name: unescape_attribute(decode(attribute.start, attribute.end))
            for attribute in reversed(token.attributes)  # The first of a name counts.
        }

    def raw(self, token: Token, values: Iterable[tuple[Place, str]] = ()) -> str:
        """Return the characters of a token, with other values of attributes."""
        parts: list[str] = []
        position = token.start
        for place, value in values:
            parts += [self.encoding.decode(position, place.start), value]
            position = place.end
        return "".join([*parts, self.encoding.decode(position, token.end)])

    def attribute(self, content: Content, place: Place) -> str:
        """Return the characters of the value of an attribute."""
        value = self.text((plain_text(content),), {})
        for character in ("\t", "\n", "\r", "'" if place.quote == b"'" else '"'):
            value = value.replace(character, f"&#{ord(character)};")
        return _quoted(value, place)

    def text(self, content: Content, raw_tags: Mapping[str, str]) -> str:
        """Return the characters of a block; `raw_tags` are the codes with texts in attributes."""
        return "".join(
            raw_tags.get(part.raw, part.raw) if isinstance(part, Code) else part
            for part in self._escaped(content)
        )

    def _escaped(self, content: Content) -> Iterator[str | Code]:
        """Escape the texts; whitespace at the ends would not be read as part of the text."""
        content = merged(content)
        is_blank = not plain_text(content).strip(_BLANK)
        for index, part in enumerate(content):
            if isinstance(part, Code):
                yield part
                continue
            rest = part.lstrip(_SPACE) if index == 0 else part
            inner = rest.rstrip(_SPACE) if index == len(content) - 1 else rest
            head, tail = part[: len(part) - len(rest)], rest[len(inner) :]
            yield kept_space(head)
            yield kept_space(inner) if is_blank else self.encoding.escape(inner)
            yield kept_space(tail)

    def language_edits(self, limit: int) -> Iterator[Edit]:
        """Set the language of the page, in its first tag, which ends before `limit`."""
        tag = self._page_tag
        if not self._language or tag is None or tag.end > limit:
            return
        value = self.encoding.encode(f'"{html.escape(self._language)}"')
        attributes = [
            one for one in tag.attributes if one.name in ("lang", "xml:lang") and one.has_value
        ]
        for attribute in attributes:
            inner = slice(1, -1) if attribute.quote else slice(None)
            yield Edit(attribute.start, attribute.end, value[inner])
        if not attributes:
            position = tag.start + len("<html")
            yield Edit(position, position, b" lang=" + value)


def _quoted(value: str, place: Place) -> str:
    return value if place.quote else f'"{value}"'
