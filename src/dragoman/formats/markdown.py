"""Markdown files.

A unit is the text of a paragraph, heading, list item, table cell or quotation. Emphasis, links,
images and HTML elements are pairs of codes around their text; the target of a link is part of its
code. Code spans, autolinks, footnote references and hard line breaks are single codes. Not
translated: code blocks, HTML blocks, front matter, link definitions, markers of admonitions.

Text is written with the escapes that it needs to stay text. Where emphasis could not be read again
next to a letter (`a**!b**`), that letter is written as a reference (`&#97;`), and as a last resort
the emphasis as HTML. Whitespace that Markdown would drop is written as a reference (`&#032;`).
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator

from dragoman.errors import DataError
from dragoman.formats.base.document import (
    Code,
    Content,
    Document,
    Target,
    Unit,
    merged,
    next_target,
    numbered,
    plain_text,
)
from dragoman.formats.base.markdown_blocks import Block, blocks
from dragoman.formats.base.markdown_inline import label_key, parse_inline

_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_LABEL = re.compile(r"^[ \t>]*\[(?!\^)((?:[^\[\]\\]|\\.)+)\]:", re.MULTILINE)
_KEPT_SPACE = re.compile(r"&#0\d+;")
_LINE_START = re.compile(
    r"#{1,6}(?=[ \t\n]|$)|[-+](?=[ \t\n]|$)|-(?=[-\s|:]*(?:\n|$))|=+(?=[ \t]*(?:\n|$))|=== |<<< |"
    r"--8<--|>|:(?=[ \t:|-])|/{3}|!{3}|\?{3}|\|"
)
_ITEM = re.compile(r"\d{1,9}(?=[.)](?:[ \t\n]|$))")
_REFERENCE = re.compile(r"&(?:#\w{1,8}|\w{2,32});|\{[ \t]*:?[ \t]*[#.%*{:]")
_ALWAYS_ESCAPED = frozenset("\\`*~[]")
_SPECIAL = frozenset("_<&{!:|#.)")
_CLOSING_MARKS = re.compile(r"#+[ \t]*$")
_EMPHASIS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~": "del", "~~": "del"}


_SPACE = " \t\n\r\f"
_LINE_BREAK = re.compile(r"(?: {2,}|\\)\n")

_Outer = tuple[str | Code | None, str | Code | None]
"""What is before and after a character: a code, None at the ends of a content, else a text."""


class MarkdownDocument(Document):
    """A Markdown file."""

    extensions = (".md", ".markdown")

    def units(self) -> Iterator[Unit]:
        """Yield the texts."""
        text, labels = self._read()
        for block, unit in _units(text, labels):
            del block
            yield unit

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with the targets."""
        text, labels = self._read()
        newline = "\r\n" if "\r\n" in text[:10_000] else "\n"
        iterator = iter(targets)
        position = 0
        for block, unit in _units(text, labels):
            target = next_target(iterator)
            if target is None or target.content == unit.source:
                continue
            markup = _markup(target.content, block, labels, f"line {block.line:,} of {self.name}")
            yield text[position : block.spans[0][0]].encode()
            yield markup.replace("\n", newline + block.prefix).encode()
            position = block.spans[-1][1]
        if next(iterator, self) is not self:
            raise ValueError("more targets than units")
        yield text[position:].encode()

    def _read(self) -> tuple[str, frozenset[str]]:
        """Return the characters of the file and the labels of its link definitions."""
        try:
            text = self.data.decode()
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{self.name} is not valid UTF-8 in line {line:,}: found the byte "
                f"0x{self.data[error.start]:02x}. Convert the file to UTF-8"
            ) from None
        return text, frozenset(label_key(match[1]) for match in _LABEL.finditer(text))


def _units(text: str, labels: frozenset[str]) -> Iterator[tuple[Block, Unit]]:
    number = 0
    for block in blocks(text):
        raw = "\n".join(text[start:end] for start, end in block.spans)
        content = parse_inline(raw, labels)
        if plain_text(content).strip(" \t\n") or _KEPT_SPACE.search(raw):
            number += 1
            yield block, Unit(str(number), content, block.line, collapses_space=True)


def _markup(content: Content, block: Block, labels: frozenset[str], where: str) -> str:
    """Return the Markdown of a content; each newline in it begins a line of the file."""
    content = numbered(_without_empty_pairs(merged(content)))
    if match := _FORBIDDEN.search(plain_text(content)):
        raise DataError(
            f"the translation for {where} contains the character U+{ord(match[0]):04X}, which "
            "Markdown cannot contain. Remove it"
        )
    for is_careful in (False, True):
        markup = _Writer(content, block, is_careful=is_careful).markup()
        if parse_inline(markup, labels) == content:
            return markup
    return _Writer(_with_html(content), block, is_careful=False).markup()


def _without_empty_pairs(content: Content) -> Content:
    """Drop emphasis without content: its marks would be read as text."""
    parts: list[str | Code] = []
    for part in content:
        last = parts[-1] if parts else ""
        is_empty = (
            isinstance(part, Code)
            and isinstance(last, Code)
            and part.raw in _EMPHASIS
            and (last.kind, last.pair, part.kind) == ("open", part.pair, "close")
        )
        if is_empty:
            parts.pop()
        else:
            parts.append(part)
    return merged(parts)


def _with_html(content: Content) -> Content:
    """Write emphasis as HTML tags."""
    return tuple(
        Code(f"<{'/' * (part.kind == 'close')}{_EMPHASIS[part.raw]}>", part.kind, part.pair)
        if isinstance(part, Code) and part.raw in _EMPHASIS
        else part
        for part in content
    )


class _Writer:
    """Writes one content."""

    def __init__(self, content: Content, block: Block, *, is_careful: bool) -> None:
        self._content = content
        self._block = block
        self._is_careful = is_careful
        """Whether letters next to emphasis are written as references."""
        self._is_line_start = not block.is_single_line

    def markup(self) -> str:
        """Return the characters of the content."""
        parts: list[str] = []
        for index, part in enumerate(self._content):
            if isinstance(part, Code):
                parts.append(part.raw)
                self._is_line_start = part.raw.endswith("\n")
            else:
                parts.append(self._text(part, index))
                self._is_line_start = False
        return "".join(parts)

    def _text(self, text: str, index: int) -> str:
        before = self._content[index - 1] if index else None
        after = self._content[index + 1] if index + 1 < len(self._content) else None
        escaped: list[str] = []
        for position, character in enumerate(text):
            if self._is_line_start and _LINE_START.match(text, position):
                escaped.append("\\")
            self._is_line_start = False
            outer = (
                before if position == 0 else "",
                after if position == len(text) - 1 else "",
            )
            if character in _SPACE:
                escaped.append(self._space(text, position, outer))
            elif self._is_careful and _is_word(character) and any(map(_is_emphasis, outer)):
                escaped.append(f"&#{ord(character)};")
            elif self._needs_escape(text, position, outer):
                escaped.append(f"\\{character}")
            else:
                escaped.append(character)
        return "".join(escaped)

    def _space(self, text: str, position: int, outer: _Outer) -> str:
        """Return whitespace; as a reference where Markdown would drop it or break the line."""
        character = text[position]
        before, after = outer
        is_kept = (
            before is None
            or after is None
            or (isinstance(before, Code) and (_opens(before) or before.raw.endswith("\n")))
            or (isinstance(after, Code) and (_closes(after) or _LINE_BREAK.match(after.raw)))
        )
        neighbors = text[position - 1 : position] + text[position + 1 : position + 2]
        if character in " \t" and not is_kept and "\n" not in neighbors:
            return character
        is_between = not any(neighbor in _SPACE for neighbor in neighbors)
        if character == "\n" and not is_kept and is_between and not self._block.is_single_line:
            self._is_line_start = True
            return character
        return f"&#0{ord(character)};"

    def _needs_escape(self, text: str, position: int, outer: _Outer) -> bool:
        """Return whether a character that is not whitespace would be read as markup."""
        character = text[position]
        if character not in _SPECIAL:
            return character in _ALWAYS_ESCAPED
        before, after = outer
        previous = text[position - 1 : position] if position else ""
        following = text[position + 1 : position + 2]
        is_single_line = self._block.is_single_line
        is_reference = _REFERENCE.match(text, position) is not None
        is_closing = after is None and _CLOSING_MARKS.match(text, position) is not None
        is_number = self._ends_number(text, position)
        return {
            "_": not (previous.isalnum() and following.isalnum()),
            "<": following not in (" ", "="),
            "&": is_reference,
            "{": is_reference,
            "!": not following and isinstance(after, Code),
            ":": isinstance(before, Code),  # `[^1]:` begins a footnote.
            "|": is_single_line,
            "#": is_single_line and is_closing,
            ".": is_number,
            ")": is_number,
        }[character]

    def _ends_number(self, text: str, position: int) -> bool:
        """Return whether `1.` at the start of a line would begin a list item."""
        if self._block.is_single_line:
            return False
        start = text.rfind("\n", 0, position) + 1
        match = _ITEM.match(text, start)
        return match is not None and match.end() == position


def _is_word(character: str) -> bool:
    """Return whether emphasis is not read next to a character, and a reference stands for it."""
    is_mark = unicodedata.category(character)[0] in "PS"
    return not is_mark and html.unescape(f"&#{ord(character)};") == character


def _is_emphasis(part: str | Code | None) -> bool:
    return isinstance(part, Code) and part.raw in _EMPHASIS


def _opens(code: Code) -> bool:
    return _is_emphasis(code) and code.kind == "open"


def _closes(code: Code) -> bool:
    return _is_emphasis(code) and code.kind == "close"
