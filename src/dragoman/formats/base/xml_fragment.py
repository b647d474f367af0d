"""Finds the texts of a fragment of XML, as clients send it: possibly not well-formed.

What is no tag is text: `a < b`, `<file name>`, and a `&` alone. A tag without a partner, a comment,
and an entity that is not known stay where they are or become codes; nothing is an error.

Whether an element is a paragraph or a part of a sentence is not said in XML. An element is a part
of a sentence if there is text beside it (`Press <key>F1</key> now`), or if it has a name that is
known for this (`b`, `g`, `ph`). Otherwise it is a paragraph: `<title>One</title><text>Two</text>`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.formats.base.document import Code, Content, Unit, merged
from dragoman.formats.base.escapes import REFERENCE
from dragoman.formats.base.html_tokens import (
    VOID_ELEMENTS,
    Token,
    TokenKind,
    names,
    needs_partner,
    partners,
)

# Programs also number tags: `<0>word</0>`.
_NAME = r"(?:[A-Za-z_\u00b7-\U0010ffff][^\s<>/=\"'&;]*+|[0-9]{1,3}(?=/?>))"
_TAG = re.compile(
    rf"<(?P<end>/?)(?P<name>{_NAME})(?P<attributes>(?:\s++[^\s<>/=\"'&;]++"
    r"(?:\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+'|[^\s<>\"'/]++))?+)*+)\s*+(?P<empty>/?)>"
)
_CLOSED = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_DECLARATION = re.compile(r"<![A-Za-z][^<>]*+>")

_PARAGRAPHS = names(
    "article blockquote body caption dd div dl dt figcaption footer h1 h2 h3 h4 h5 h6 head header "
    "hr html li main ol p par para pre section seg table tbody td tfoot th thead title tr ul"
)
"""They are never a part of a sentence."""
_INLINE = names(
    "abbr acronym bdi bdo big bpt bx cite code del dfn em emphasis ept ex font ins it kbd link "
    "literal mark mrk ph placeholder ref samp small span strike strong sub sup tag term tt var xref"
)
_SHORT_NAME = re.compile(r"[a-z]|[a-z]{0,3}-?[0-9]+")
"""Names such as `b`, `x`, `t1`: programs write them around words."""

_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit is in the fragment."""

    unit: Unit
    start: int
    end: int


def xml_places(text: str, kept: frozenset[str]) -> list[Place]:
    """Return the units of a fragment; elements with the names in `kept` are copied as they are."""
    tokens = _without_kept(list(_tokens(text)), kept)
    indexes = partners(tokens)
    tokens, indexes = _without_empty(tokens, indexes)
    places: list[Place] = []
    for begin, end in _segments(text, tokens, indexes):
        place = _place(text, tokens[begin:end], str(len(places) + 1))
        if place is not None:
            places.append(place)
    return places


def _tokens(text: str) -> Iterator[Token]:
    """Split a fragment into tags, texts and the rest."""
    never_closed: set[str] = set()
    text_start = position = 0
    while (position := text.find("<", position)) >= 0:
        token = _markup(text, position, never_closed)
        if token is None:
            position += 1
            continue
        if text_start < position:
            yield Token("text", text_start, position)
        yield token
        text_start = position = token.end
    if text_start < len(text):
        yield Token("text", text_start, len(text))


def _markup(text: str, position: int, never_closed: set[str]) -> Token | None:
    """Return the tag, comment or section at a position; None if it is text."""
    tag = _TAG.match(text, position)
    if tag is not None:
        # `<file name>` is a text for people.
        if tag["attributes"] and "=" not in tag["attributes"]:
            return None
        kind: TokenKind = "end" if tag["end"] else "start"
        is_empty = bool(tag["empty"]) and kind == "start"
        return Token(kind, position, tag.end(), tag["name"].lower(), is_empty=is_empty)
    for mark, closing in _CLOSED.items():
        if text.startswith(mark, position) and mark not in never_closed:
            end = text.find(closing, position + len(mark))
            if end >= 0:
                section: TokenKind = "cdata" if mark == "<![CDATA[" else "comment"
                return Token(section, position, end + len(closing))
            never_closed.add(mark)  # The search is not repeated: time stays linear.
    declaration = _DECLARATION.match(text, position)
    return Token("comment", position, declaration.end()) if declaration else None


def _without_kept(tokens: list[Token], kept: frozenset[str]) -> list[Token]:
    """Make one token of each element in `kept`, and mark `<br>` as empty if it is never closed."""
    closed = {token.name for token in tokens if token.kind == "end"}
    ends: dict[int, int] = {}
    open_indexes: dict[str, list[int]] = {}
    for index, token in enumerate(tokens):
        if token.name not in kept or token.is_empty:
            continue
        if token.kind == "start":
            open_indexes.setdefault(token.name, []).append(index)
        elif open_indexes.get(token.name):
            ends[open_indexes[token.name].pop()] = index
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if index in ends:
            index = ends[index]
            token = Token("foreign", token.start, tokens[index].end)
        elif token.name in VOID_ELEMENTS and token.name not in closed:
            token = Token("start", token.start, token.end, token.name, is_empty=True)
        result.append(token)
        index += 1
    return result


def _without_empty(
    tokens: list[Token], indexes: list[int | None]
) -> tuple[list[Token], list[int | None]]:
    """Make one token of each element without content: `<x id="1"></x>`."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind == "start" and indexes[index] == index + 1:
            index += 1
            token = Token("foreign", token.start, tokens[index].end)
        result.append(token)
        index += 1
    return result, partners(result)


def _segments(
    text: str, tokens: Sequence[Token], indexes: Sequence[int | None]
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of tokens that are sentences or paragraphs, in order."""
    waiting = [(0, len(tokens), False)]
    while waiting:
        begin, end, is_sentence = waiting.pop()
        if is_sentence:
            yield from _between_single_tags(tokens, indexes, begin, end)
            continue
        ranges: list[tuple[int, int, bool]] = []
        for child in _paragraphs(text, tokens, indexes, begin, end):
            partner = indexes[child]
            assert partner is not None
            ranges += [(begin, child, True), (child + 1, partner, False)]
            begin = partner + 1
        waiting += reversed([*ranges, (begin, end, True)])


def _paragraphs(
    text: str, tokens: Sequence[Token], indexes: Sequence[int | None], begin: int, end: int
) -> list[int]:
    """Return the elements of a range, without those inside of them, that are paragraphs."""
    children: list[int] = []
    has_text = False
    index = begin
    while index < end:
        token, partner = tokens[index], indexes[index]
        if partner is not None:
            children.append(index)
            index = partner
        elif token.kind in ("text", "cdata") and not text[token.start : token.end].isspace():
            has_text = True
        index += 1
    return [child for child in children if _is_paragraph(tokens[child].name, has_text=has_text)]


def _is_paragraph(name: str, *, has_text: bool) -> bool:
    if name in _PARAGRAPHS or has_text:
        return name in _PARAGRAPHS
    return name not in _INLINE and _SHORT_NAME.fullmatch(name) is None


def _between_single_tags(
    tokens: Sequence[Token], indexes: Sequence[int | None], begin: int, end: int
) -> Iterator[tuple[int, int]]:
    """Split a range at tags without a partner; they stay where they are."""
    for index in range(begin, end):
        if indexes[index] is None and needs_partner(tokens[index]):
            yield begin, index
            begin = index + 1
    yield begin, end


def _place(text: str, tokens: Sequence[Token], key: str) -> Place | None:
    """Make a unit of tokens in which each tag has its partner; None if there is no text."""
    if not tokens:
        return None
    start, end = tokens[0].start, tokens[-1].end
    if tokens[0].kind == "text":
        start = tokens[0].end - len(text[start : tokens[0].end].lstrip())
    if tokens[-1].kind == "text":
        last_start = max(start, tokens[-1].start)
        end = last_start + len(text[last_start:end].rstrip())
    parts: list[str | Code] = []
    open_numbers: list[int] = []
    count = 0
    for token in tokens:
        raw = text[max(token.start, start) : min(token.end, end)]
        if token.kind == "text":
            parts += _decoded(raw)
        elif token.kind == "cdata":
            parts.append(raw.removeprefix("<![CDATA[").removesuffix("]]>"))
        elif token.kind == "end":
            parts.append(Code(raw, "close", open_numbers.pop()))
        elif needs_partner(token):
            count += 1
            open_numbers.append(count)
            parts.append(Code(raw, "open", count))
        else:
            # `<x id="1"></x>` is a placeholder for a client; `<br/>` and a comment are not.
            is_word = token.kind != "comment" and token.name not in VOID_ELEMENTS
            parts.append(Code(raw, is_word=is_word))
    source: Content = merged(parts)
    if not any(isinstance(part, str) and part.strip() for part in source):
        return None
    return Place(Unit(key, source, 1), start, end)


def _decoded(raw: str) -> Iterator[str | Code]:
    """Yield a text without its references; those that stand for no text are codes."""
    position = 0
    for match in REFERENCE.finditer(raw):
        yield raw[position : match.start()]
        character = html.unescape(match[0])
        is_code = character in ("", match[0]) or _CONTROL.search(character) is not None
        yield Code(match[0], is_word=True) if is_code else character
        position = match.end()
    yield raw[position:]
