"""Splits HTML into tokens with byte offsets, by the rules of the HTML tokenizer.

Every byte belongs to one token. Nothing is an error: as in a browser, `a < b` is text, a comment
that is not closed reaches to the end of the file, and a script contains no tags. The input is in an
encoding in which bytes below 128 are ASCII. Scanning is linear and keeps no state that grows.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["text", "cdata", "start", "end", "raw", "comment", "foreign"]
"""`raw` is the content of an element such as `script`, `comment` everything between `<!` or `<?`
and `>`, `foreign` a whole `svg` or `math` element."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text: names of elements."""
    return frozenset(text.split())


VOID_ELEMENTS = names(
    "area base basefont bgsound br col command embed frame hr image img input isindex keygen link "
    "meta param source track wbr"
)
ESCAPABLE_RAW_ELEMENTS = frozenset(("textarea", "title"))
"""Their content has no tags, but character references."""

_RAW_ELEMENTS = ESCAPABLE_RAW_ELEMENTS | frozenset(
    ("script", "style", "xmp", "iframe", "noembed", "noframes")
)
# Start tags that end an `svg` or `math` element which was not closed.
_BREAKOUT_ELEMENTS = names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li "
    "listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul "
    "var"
)
# Elements of `svg` and `math` that contain HTML.
_INTEGRATION_ELEMENTS = frozenset(
    ("foreignobject", "desc", "title", "mi", "mo", "mn", "ms", "mtext", "annotation-xml")
)

_TAG_NAME = re.compile(rb"<(/?)([A-Za-z][^\t\n\f\r />]*+)")
_ATTRIBUTE = re.compile(
    rb"[\t\n\f\r /]*+(?:(?P<end>>)|(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*+)"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"(?:\"(?P<double>[^\"]*+)(?:\"|(?P<open>\Z))|'(?P<single>[^']*+)(?:'|(?P<open_single>\Z))"
    rb"|(?P<plain>[^\t\n\f\r >]*+)))?)"
)
_COMMENT_END = re.compile(rb"--!?>")
_SCRIPT_MARK = re.compile(rb"(?i:<!--|--+>|<(/?)script(?=[\t\n\f\r />]))")
_RAW_END = {
    name: re.compile(rb"(?i:</" + name.encode() + rb"(?=[\t\n\f\r />]))") for name in _RAW_ELEMENTS
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a start tag; its value is the bytes from `start` to `end`."""

    name: str
    start: int
    end: int
    quote: bytes
    """The quotation mark; empty if the value has none."""
    has_value: bool


@dataclass(frozen=True, slots=True)
class Token:
    """One token of the file: bytes `start` to `end`."""

    kind: TokenKind
    start: int
    end: int
    name: str = ""
    """Of a tag, in lower case; of `raw`, the element."""
    attributes: tuple[Attribute, ...] = ()
    is_empty: bool = False
    """Of a start tag: the element has no content and no end tag."""
    is_self_closing: bool = False
    """Whether the tag ends in `/>`, which means nothing in HTML outside of `svg` and `math`."""


def html_tokens(data: bytes, start: int = 0, *, is_xml: bool = False) -> Iterator[Token]:
    """Yield the tokens of a file; with `is_xml`, `<p/>` is empty and a script may have CDATA."""
    text_start = position = start
    while (position := data.find(b"<", position)) >= 0:
        token = _markup(data, position, is_xml=is_xml)
        if token is None:  # A `<` in text.
            position += 1
            continue
        if text_start < position:
            yield Token("text", text_start, position)
        yield token
        text_start = position = token.end
        if token.kind == "start" and not is_xml:
            end = _raw_end(data, position, token.name)
            if end > position:
                yield Token("raw", position, end, token.name)
            text_start = position = end
    if text_start < len(data):
        yield Token("text", text_start, len(data))


def _markup(data: bytes, position: int, *, is_xml: bool) -> Token | None:
    tag = _TAG_NAME.match(data, position)
    if tag is not None:
        token = _tag(data, tag, is_xml=is_xml)
        is_foreign = token.kind == "start" and token.name in ("svg", "math")
        if is_foreign and token.is_self_closing:
            return Token("foreign", position, token.end)
        if is_foreign:
            return Token("foreign", position, _foreign_end(data, token.end, is_xml=is_xml))
        return token
    following = data[position + 1 : position + 2]
    if following not in (b"!", b"?", b"/") or (following == b"/" and position + 2 >= len(data)):
        return None
    return _comment(data, position, has_cdata=is_xml)


def _comment(data: bytes, position: int, *, has_cdata: bool) -> Token:
    """Return the comment, declaration or CDATA section at a position."""
    if data.startswith(b"<!--", position):
        # `<!-->` and `<!--->` are complete comments.
        early = data[position + 4 : position + 6]
        if early.startswith(b">") or early == b"->":
            return Token("comment", position, position + (5 if early.startswith(b">") else 6))
        end = _COMMENT_END.search(data, position + 4)
        return Token("comment", position, end.end() if end else len(data))
    if has_cdata and data.startswith(b"<![CDATA[", position):
        close = data.find(b"]]>", position)
        return Token("cdata", position, close + 3 if close >= 0 else len(data))
    mark = b"?>" if has_cdata and data.startswith(b"<?", position) else b">"
    close = data.find(mark, position)
    return Token("comment", position, close + len(mark) if close >= 0 else len(data))


def _tag(data: bytes, tag: re.Match[bytes], *, is_xml: bool) -> Token:
    name = tag[2].decode("latin-1").lower()
    attributes: list[Attribute] = []
    position = tag.end()
    while match := _ATTRIBUTE.match(data, position):
        position = match.end()
        if match["end"]:
            kind: TokenKind = "end" if tag[1] else "start"
            is_closed = match[0].endswith(b"/>")
            is_empty = name in VOID_ELEMENTS or (is_closed and is_xml)
            return Token(kind, tag.start(), position, name, tuple(attributes), is_empty, is_closed)
        if match["open"] is not None or match["open_single"] is not None:
            break
        attributes.append(_attribute(match))
    # The file ends inside the tag: a browser ignores it.
    return Token("comment", tag.start(), len(data))


def _attribute(match: re.Match[bytes]) -> Attribute:
    name = match["name"].decode("latin-1").lower()
    for group, quote in (("double", b'"'), ("single", b"'"), ("plain", b"")):
        start, end = match.span(group)
        if start >= 0:
            return Attribute(name, start, end, quote, has_value=True)
    return Attribute(name, match.end(), match.end(), b"", has_value=False)


def _raw_end(data: bytes, position: int, name: str) -> int:
    """Return where the content ends that has no tags; `position` for other elements."""
    if name == "plaintext":
        return len(data)
    if name == "script":
        return _script_end(data, position)
    if name not in _RAW_ELEMENTS:
        return position
    match = _RAW_END[name].search(data, position)
    return match.start() if match else len(data)


def _script_end(data: bytes, position: int) -> int:
    """Return where a script ends: `<!-- <script>` hides the next end tag."""
    state = "script"
    while match := _SCRIPT_MARK.search(data, position):
        mark = match[0]
        position = match.end()
        if mark == b"<!--":
            if state == "script":
                state = "comment"
            position -= 2  # `<!-->` ends the comment at once.
        elif mark.startswith(b"-"):
            state = "script"
        elif not match[1]:
            state = "nested" if state == "comment" else state
        elif state == "nested":
            state = "comment"
        else:
            return match.start()
    return len(data)


def _foreign_end(data: bytes, position: int, *, is_xml: bool) -> int:
    """Return where an `svg` or `math` element ends, after its start tag."""
    depth, html_depth = 1, 0
    while (position := data.find(b"<", position)) >= 0:
        tag = _TAG_NAME.match(data, position)
        if tag is None:
            is_markup = data[position + 1 : position + 2] in (b"!", b"?", b"/")
            position = _comment(data, position, has_cdata=True).end if is_markup else position + 1
            continue
        token = _tag(data, tag, is_xml=is_xml)
        is_html = token.kind == "start" and token.name in _BREAKOUT_ELEMENTS
        if is_html and not html_depth and not is_xml:
            return position
        position = token.end
        if token.kind == "comment" or token.is_self_closing:
            continue
        step = 1 if token.kind == "start" else -1
        if token.name in ("svg", "math"):
            depth += step
        elif token.name in _INTEGRATION_ELEMENTS:
            html_depth = max(0, html_depth + step)
        if depth == 0:
            return position
    return len(data)


def partners(tokens: Sequence[Token]) -> list[int | None]:
    """Return for each tag the index of its partner, if everything between them is paired too."""
    indexes: list[int | None] = [None] * len(tokens)
    open_indexes: list[int] = []
    counts: Counter[str] = Counter()
    broken = 0
    """So many of the open tags have a tag without a partner inside of them."""
    for index, token in enumerate(tokens):
        if token.kind == "start" and not token.is_empty:
            open_indexes.append(index)
            counts[token.name] += 1
        elif token.kind == "end" and not counts[token.name]:
            broken = len(open_indexes)
        elif token.kind == "end":
            while tokens[open_indexes[-1]].name != token.name:
                counts[tokens[open_indexes.pop()].name] -= 1
                broken = len(open_indexes)
            partner = open_indexes.pop()
            counts[token.name] -= 1
            if broken > len(open_indexes):
                broken = len(open_indexes)
            else:
                indexes[index], indexes[partner] = partner, index
    return indexes


def needs_partner(token: Token) -> bool:
    """Return whether a token is a start tag with content, or an end tag."""
    return token.kind == "end" or (token.kind == "start" and not token.is_empty)


@dataclass(frozen=True, slots=True)
class InlinePiece:
    """A token of inline content."""

    token: Token
    is_translatable: bool
    is_opaque: bool = False
    """Whether the element is not translated: with its content, it is one code."""
    is_closed: bool = False
    """Whether it is one code if it has no content: `<a id="top"></a>`. Nothing may come inside."""


def collapse_opaque(run: list[InlinePiece]) -> list[InlinePiece]:
    """Make one token of each element that is not translated, and of each that is empty."""
    if not any(piece.is_opaque for piece in run) and not any(
        piece.is_closed and following.token.kind == "end"
        for piece, following in itertools.pairwise(run)
    ):
        return run
    indexes = partners([piece.token for piece in run])
    pieces: list[InlinePiece] = []
    index = 0
    while index < len(run):
        piece, partner = run[index], indexes[index]
        is_one = piece.is_opaque or (piece.is_closed and partner == index + 1)
        if is_one and partner is not None and partner > index:
            token = Token("foreign", piece.token.start, run[partner].token.end)
            piece, index = InlinePiece(token, is_translatable=False), partner
        pieces.append(piece)
        index += 1
    return pieces
