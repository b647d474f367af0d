"""Finds the texts of a Markdown file: paragraphs, headings, list items, table cells.

The rules are those of CommonMark with the extensions that documentation uses: tables, front matter,
footnotes, definition lists, admonitions (`!!! note`, `/// note`), attribute lists (`{ #anchor }`).
Code, HTML blocks, link definitions and lines of markers only are no texts. One pass over the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BULLET = re.compile(r"([-+*])(?=[ \t]|$)")
_NUMBER = re.compile(r"(\d{1,9})[.)](?=[ \t]|$)")
_NOTE = re.compile(r"\[\^[^\]\s]+\]:(?=[ \t]|$)|:(?=[ \t])")
_TASK = re.compile(r"\[[ xX]\][ \t]+")
_HEADING = re.compile(r"#{1,6}(?=[ \t]|$)")
# It begins after another character, so that time stays linear.
_HEADING_END = re.compile(r"(?<![ \t])(?:[ \t]+\{:?[ \t]*[#.][^{}\n]*\})?(?:[ \t]+#+)?[ \t]*$")
_THEMATIC = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*$")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_DIRECTIVE = re.compile(
    r"(?:///|:::|!!!|\?\?\?|=== \"|<<< |--8<--|\{\*.*\*\}\s*$|\{[%{].*[%}]\}\s*$|\*\[[^\]]+\]:)"
)
_INDENTING_DIRECTIVE = re.compile(r"(?:!!!|\?\?\?|=== \")")
_DEFINITION = re.compile(r"\[(?!\^)(?:[^\[\]\\]|\\.)+\]:[ \t]*(?:$|\S)")
_TITLE = re.compile(r"(?:\"[^\"]*\"|'[^']*'|\([^()]*\))[ \t]*$")
_DELIMITER_ROW = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CELL = re.compile(r"(?:[^|\\\n]|\\.|\\$)*")
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n")
_HTML_RAW = re.compile(r"<(script|pre|style|textarea)(?=[\s>]|$)", re.IGNORECASE)
_HTML_ENDS = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_HTML_BLOCK = re.compile(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|"
    r"details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|"
    r"head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|"
    r"p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul)"
    r"(?=[\s>]|/>|$)",
    re.IGNORECASE,
)
_HTML_TAG = re.compile(
    r"(?:</[A-Za-z][A-Za-z0-9-]*\s*>|<[A-Za-z][A-Za-z0-9-]*"
    r"(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*\s*/?>)[ \t]*$"
)


@dataclass(frozen=True, slots=True)
class Block:
    """The place of a text: its parts of the lines, without indentation and markers."""

    spans: tuple[tuple[int, int], ...]
    line: int
    prefix: str = ""
    """What a further line of the text begins with."""
    is_single_line: bool = False
    """Whether the text cannot have a newline: a heading or a table cell."""


@dataclass(slots=True)
class _Line:
    """A line after its indentation and markers."""

    number: int
    start: int
    end: int
    """Without the newline."""
    text: str = ""
    """From `content` to the end."""
    content: int = 0
    column: int = 0
    indent: int = 0
    """How much deeper the text is than the list item around it."""
    quotes: int = 0
    has_marker: bool = False
    prefix: str = ""


@dataclass(slots=True)
class _State:
    columns: list[int] = field(default_factory=list)
    """Where the text of the open list items begins."""
    paragraph: list[_Line] = field(default_factory=list)
    fence: str = ""
    fence_line: _Line | None = None
    fence_column: int = 0
    """Where the list item around the code begins."""
    html_end: str | None = None
    """What ends the HTML block: a text, or an empty line if it is empty; None = no block."""
    is_table: bool = False
    is_definition: bool = False


def blocks(text: str) -> Iterator[Block]:
    """Yield the texts in the order of the file."""
    scanner = _Scanner(text)
    for line in scanner.lines():
        yield from scanner.take(line)
    yield from scanner.end_paragraph()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._state = _State()

    def lines(self) -> Iterator[_Line]:
        start = self._front_matter_end()
        number = self._text.count("\n", 0, start)
        for match in _LINE.finditer(self._text, start):
            number += 1
            end = match.start() + len(match[0].rstrip("\r\n"))
            yield _Line(number, match.start(), end)

    def _front_matter_end(self) -> int:
        begin = 1 if self._text.startswith("\ufeff") else 0
        match = _FRONT_MATTER.match(self._text, begin)
        if match is None:
            return begin
        end = re.compile(rf"^{re.escape(match[1])}[ \t]*\r?$\n?", re.MULTILINE)
        close = end.search(self._text, match.end())
        return close.end() if close else begin

    def take(self, line: _Line) -> Iterator[Block]:
        """Read a line; yield the texts that it completes."""
        state = self._state
        self._read_markers(line)
        is_code = state.fence != "" or state.html_end is not None
        if is_code and self._is_inside(line):
            return
        if line.text == "":
            yield from self.end_paragraph()
            state.is_table = state.is_definition = False
            return
        if state.is_table and not line.has_marker:
            yield from self._cells(line)
            return
        state.is_table = False
        if self._continues(line):
            if _DELIMITER_ROW.match(line.text) and self._is_header(line):
                header = state.paragraph.pop()
                yield from self.end_paragraph()
                yield from self._cells(header)
                state.is_table = True
            elif _UNDERLINE.match(line.text) and line.indent < 4:
                yield from self.end_paragraph()
            else:
                state.paragraph.append(line)
            return
        yield from self.end_paragraph()
        yield from self._start(line)

    def _start(self, line: _Line) -> Iterator[Block]:
        """Read the first line of a block."""
        state = self._state
        was_definition, state.is_definition = state.is_definition, False
        if line.indent >= 4 or _THEMATIC.match(line.text):
            return
        fence = _FENCE.match(line.text)
        heading = _HEADING.match(line.text)
        if fence:
            state.fence, state.fence_line = fence[1] or fence[2], line
            state.fence_column = line.column - line.indent
        elif heading:
            end = _HEADING_END.search(line.text, heading.end())
            stop = line.content + (end.start() if end else len(line.text))
            yield from self._single(line, line.content + heading.end(), stop)
        elif _DIRECTIVE.match(line.text):
            if _INDENTING_DIRECTIVE.match(line.text):
                state.columns.append(line.column + 4)
        elif self._is_html(line):
            return
        elif _DEFINITION.match(line.text):
            state.is_definition = True
        elif not (was_definition and _TITLE.match(line.text)):
            state.paragraph.append(line)

    def _is_html(self, line: _Line) -> bool:
        """Return whether a line begins an HTML block."""
        text = line.text
        raw = _HTML_RAW.match(text)
        end = f"</{raw[1].lower()}>" if raw else None
        for mark, mark_end in _HTML_ENDS:
            if end is None and text.startswith(mark) and (mark != "<!" or text[2:3].isalpha()):
                end = mark_end
        if end is None and (_HTML_BLOCK.match(text) or _HTML_TAG.match(text)):
            end = ""
        if end is None:
            return False
        if not end or end not in text.lower():
            self._state.html_end = end
        return True

    def _is_inside(self, line: _Line) -> bool:
        """Return whether a line belongs to the open code or HTML block, and close it at its end."""
        state = self._state
        if state.fence:
            opening = state.fence_line
            assert opening is not None
            is_left = line.text != "" and line.column < state.fence_column
            if line.quotes < opening.quotes or is_left:
                state.fence = ""
                return False
            closing = line.text.strip(" \t")
            if closing and not closing.strip(state.fence[0]) and len(closing) >= len(state.fence):
                state.fence = ""
            return True
        end = state.html_end
        assert end is not None
        if end == "" and line.text == "":
            state.html_end = None
            return False
        if end and end in self._text[line.start : line.end].lower():
            state.html_end = None
        return True

    def _continues(self, line: _Line) -> bool:
        """Return whether a line belongs to the open paragraph."""
        paragraph = self._state.paragraph
        if not paragraph or line.has_marker or line.quotes > paragraph[-1].quotes:
            return False
        if line.indent >= 4:
            return True
        text = line.text
        is_underline = _UNDERLINE.match(text) and line.quotes == paragraph[-1].quotes
        if is_underline:
            return True
        return not (
            _HEADING.match(text)
            or _THEMATIC.match(text)
            or _FENCE.match(text)
            or _DIRECTIVE.match(text)
            or _HTML_RAW.match(text)
            or _HTML_BLOCK.match(text)
            or any(text.startswith(mark) for mark, _ in _HTML_ENDS[:3])
        )

    def _is_header(self, line: _Line) -> bool:
        """Return whether the last line of the paragraph is the header of a table."""
        header = self._state.paragraph[-1]
        has_bar = "|" in header.text
        return has_bar and len(list(self._split(header))) == len(list(self._split(line)))

    def _cells(self, line: _Line) -> Iterator[Block]:
        for start, end in self._split(line):
            yield from self._single(line, start, end)

    def _split(self, line: _Line) -> Iterator[tuple[int, int]]:
        """Yield the places of the cells of a row."""
        end = line.content + len(line.text.rstrip(" \t"))
        position = line.content + (1 if line.text.startswith("|") else 0)
        while position <= end:
            cell = _CELL.match(self._text, position, end)
            assert cell is not None
            if cell.end() >= end and cell[0].strip() == "" and position > line.content:
                return
            yield cell.span()
            position = cell.end() + 1

    def _single(self, line: _Line, start: int, end: int) -> Iterator[Block]:
        """Yield a part of a line as a text, without the whitespace around it."""
        raw = self._text[start:end]
        start += len(raw) - len(raw.lstrip(" \t"))
        end = start + len(raw.strip(" \t"))
        if start < end:
            yield Block(((start, end),), line.number, is_single_line=True)

    def end_paragraph(self) -> Iterator[Block]:
        """Yield the open paragraph."""
        lines, self._state.paragraph = self._state.paragraph, []
        if not lines:
            return
        spans = [(line.content, line.content + len(line.text)) for line in lines]
        last_start, last_end = spans[-1]
        kept = self._text[last_start:last_end].rstrip(" \t")
        spans[-1] = (last_start, last_start + len(kept))
        prefix = lines[1].prefix if len(lines) > 1 else lines[0].prefix
        yield Block(tuple(spans), lines[0].number, prefix)

    def _read_markers(self, line: _Line) -> None:
        """Find where the text of a line begins, and which list item it belongs to."""
        raw = self._text[line.start : line.end]
        state = self._state
        position, column, prefix, depth = 0, 0, "", 0
        is_first = True
        while True:
            rest = raw[position:]
            spaces = rest[: len(rest) - len(rest.lstrip(" \t"))]
            text_column = _column(spaces, column)
            is_code = state.fence != "" or state.html_end is not None
            is_text = rest.strip(" \t") != "" and not rest.lstrip(" \t").startswith(">")
            if is_first and is_text and not is_code:
                while state.columns and state.columns[-1] > text_column:
                    if state.paragraph and not self._is_item(rest.lstrip(" \t")):
                        break
                    state.columns.pop()
                is_first = False
            base = max((one for one in state.columns if one <= text_column), default=0)
            line.indent = text_column - max(base, column)
            marker = self._marker(rest[len(spaces) :], line, state)
            if not marker or line.indent >= 4 or (is_code and marker != ">"):
                break
            after = rest[len(spaces) + len(marker) :]
            gap = 1 if after[:1] in (" ", "\t") else 0
            if marker == ">":
                line.quotes += 1
                prefix += spaces + marker + after[:gap]
            else:
                line.has_marker = True
                width = len(after) - len(after.lstrip(" \t"))
                gap = width if 1 <= width <= 4 and after.strip() else gap
                prefix += spaces + " " * (len(marker) + max(gap, 1))
            consumed = spaces + marker + after[:gap]
            position += len(consumed)
            column = _column(consumed, column)
            if marker != ">":
                state.columns.append(column)
            depth += 1
            if depth > 100:  # A line of markers only.
                break
        text = raw[position + len(spaces) :]
        task = _TASK.match(text) if line.has_marker else None
        skipped = task.end() if task else 0
        line.text = text[skipped:]
        line.content = line.start + position + len(spaces) + skipped
        line.column = text_column
        line.prefix = prefix + (spaces if not line.has_marker else "")

    def _is_item(self, text: str) -> bool:
        return bool(_BULLET.match(text) or _NUMBER.match(text) or _NOTE.match(text))

    def _marker(self, text: str, line: _Line, state: _State) -> str:
        """Return the marker of a quotation, list item or note at the start of a text."""
        if text.startswith(">"):
            return ">"
        if _THEMATIC.match(text):
            return ""
        match = _BULLET.match(text) or _NUMBER.match(text) or _NOTE.match(text)
        if match is None:
            return ""
        is_interrupting = bool(state.paragraph) and not line.has_marker and not state.columns
        is_empty = text[match.end() :].strip() == ""
        is_later = match.re is _NUMBER and match[1] != "1"
        return "" if is_interrupting and (is_empty or is_later) else match[0]


def _column(text: str, column: int = 0) -> int:
    """Return the column after a text that begins at a column; tabs are up to 4 wide."""
    for character in text:
        column += 4 - column % 4 if character == "\t" else 1
    return column
