"""What SRT and WebVTT have in common: cues, their tags, and the breaking of lines.

A unit is the text of a cue. Its lines are joined by a space (between Chinese or Japanese
characters by nothing), because a translation is broken elsewhere. Tags are codes.

A written text is broken into as many lines as it needs, which are about equally long. The longest
line is as long as the longest one in the file, but at least 37 and at most 42 columns: the usual
limits of broadcasters. If no cue of the file has several lines and some are longer, the file is
not broken (audio descriptions). If the text begins with a dash, a line begins at each dash (two
speakers).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dragoman.formats.base.columns import columns, is_ideographic, may_break
from dragoman.formats.base.document import Code, Content, Document, Target, Unit, merged
from dragoman.formats.base.text_file import TextEdit, TextFile, read_text

MIN_COLUMNS = 37
MAX_COLUMNS = 42

# The first is the line end of a broken conversion: CR CR LF.
_LINE = re.compile(r"([^\r\n]*+)(\r\r\n|\r\n|[\r\n]|\Z)")
_NEWLINES = re.compile(r"\r\n|[\r\n]")
_TAG_NAME = re.compile(r"</?([A-Za-z]+)")
_WORD = re.compile(r"[ \t]+|[^ \t]+")
_DASHES = ("-", "–", "—")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file: its text, and its position without the newline."""

    number: int
    text: str
    start: int
    newline: str

    @property
    def end(self) -> int:
        """The position before the newline."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Cue:
    """The timing line and the lines of text of one cue."""

    key: str
    timing: Line
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of a text that is not broken."""

    glue: str
    """What is between it and the previous one in the same line: a space, or nothing."""
    raw: str
    width: int


class Subtitles(Document):
    """Cues with their timing, which is copied."""

    tag: ClassVar[re.Pattern[str]]
    """Matches one tag in the text of a cue."""

    @abstractmethod
    def cues(self, file: TextFile) -> Iterator[Cue]:
        """Yield the cues of the file."""

    @abstractmethod
    def escape(self, text: str) -> str:
        """Write a text so that no part of it is read as markup."""

    @abstractmethod
    def unescape(self, raw: str) -> str:
        """Reverse `escape`."""

    def units(self) -> Iterator[Unit]:
        """Yield the texts of the cues."""
        for cue in self.cues(read_text(self.data, self.name)):
            line = cue.lines[0].number if cue.lines else cue.timing.number
            yield Unit(cue.key, self._content(cue), line, collapses_space=True)

    def write(self, targets: Iterable[Target | None]) -> Iterator[bytes]:
        """Yield the file with other texts."""
        file = read_text(self.data, self.name)
        return file.write(self._edits(file, targets))

    def _edits(self, file: TextFile, targets: Iterable[Target | None]) -> Iterator[TextEdit]:
        limit = self._max_columns(file)
        for cue, target in zip(self.cues(file), targets, strict=True):
            if target is None or target.content == self._content(cue):
                continue
            newline = cue.timing.newline or "\n"
            written = newline.join(_lines(self._chunks(target.content), limit))
            if cue.lines:
                yield TextEdit(cue.lines[0].start, cue.lines[-1].end, written)
            elif written:
                yield TextEdit(cue.timing.end, cue.timing.end, newline + written)

    def _max_columns(self, file: TextFile) -> int | None:
        """Return the length of the longest line to write; None = lines are not broken."""
        longest = 0
        has_breaks = False
        for cue in self.cues(file):
            has_breaks = has_breaks or len(cue.lines) > 1
            for line in cue.lines:
                longest = max(longest, columns(self.unescape(self.tag.sub("", line.text))))
        if longest > MAX_COLUMNS and not has_breaks:
            return None
        return max(MIN_COLUMNS, min(longest, MAX_COLUMNS))

    def _content(self, cue: Cue) -> Content:
        raw = ""
        for line in cue.lines:
            is_joined = bool(raw) and is_ideographic(raw[-1]) and is_ideographic(line.text[0])
            raw += line.text if is_joined or line is cue.lines[0] else f" {line.text}"
        tags = list(self.tag.finditer(raw))
        codes = _paired([tag[0] for tag in tags])
        parts: list[str | Code] = []
        position = 0
        for tag, code in zip(tags, codes, strict=True):
            parts += [self.unescape(raw[position : tag.start()]), code]
            position = tag.end()
        return merged([*parts, self.unescape(raw[position:])])

    def _chunks(self, content: Content) -> list[_Chunk]:
        builder = _ChunkBuilder()
        for part in content:
            if isinstance(part, Code):
                builder.add(_NEWLINES.sub(" ", part.raw), 0)
                continue
            for word in _WORD.findall(self.escape(_NEWLINES.sub(" ", part))):
                if word[0] in " \t":
                    builder.space = word
                else:
                    builder.add_word(word, self.unescape)
        return builder.finish()


class _ChunkBuilder:
    """Splits a text where its lines may be broken, so that reading joins them to the same text."""

    def __init__(self) -> None:
        self.space = ""
        self._chunks: list[_Chunk] = []
        self._glue = self._raw = ""
        self._width = 0

    def add_word(self, word: str, unescape: Callable[[str], str]) -> None:
        """Add a text without spaces."""
        start = 0
        for position in range(1, len(word)):
            if may_break(word[position - 1], word[position]):
                self.add(word[start:position], columns(unescape(word[start:position])))
                self._close("")
                start = position
        self.add(word[start:], columns(unescape(word[start:])))

    def add(self, raw: str, width: int) -> None:
        """Add a word or a code to the current chunk, or begin a new one after a single space."""
        if self.space:
            is_lost = is_ideographic(self._raw[-1:]) and is_ideographic(raw[0])
            if self.space == " " and self._width and not is_lost:
                self._close(" ")
            else:
                self._raw += self.space
                self._width += len(self.space)
            self.space = ""
        self._raw += raw
        self._width += width

    def finish(self) -> list[_Chunk]:
        """Return the chunks."""
        self._raw += self.space
        if self._raw:
            self._close("")
        return self._chunks

    def _close(self, next_glue: str) -> None:
        self._chunks.append(_Chunk(self._glue, self._raw, self._width))
        self._glue, self._raw, self._width = next_glue, "", 0


def read_lines(text: str) -> Iterator[Line]:
    """Yield the lines of a file."""
    position, number = 0, 1
    while position < len(text):
        match = _LINE.match(text, position)
        assert match
        yield Line(number, match[1], position, match[2])
        position = match.end()
        number += 1


def blocks(lines: Iterable[Line], blank: str) -> Iterator[list[Line]]:
    """Yield the lines between blank lines, which contain nothing but the characters `blank`."""
    block: list[Line] = []
    for line in lines:
        if line.text.strip(blank):
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _paired(tags: list[str]) -> list[Code]:
    """Number the pairs of opening and closing tags; a tag without a partner is single."""
    codes = [Code(tag) for tag in tags]
    open_tags: list[tuple[str, int]] = []
    counts: Counter[str] = Counter()
    pair = 0
    for index, tag in enumerate(tags):
        match = _TAG_NAME.match(tag)
        name = match[1].lower() if match else ""
        if name and not tag.startswith("</"):
            open_tags.append((name, index))
            counts[name] += 1
        elif name and counts[name]:
            while True:
                opened, start = open_tags.pop()
                counts[opened] -= 1
                if opened == name:
                    break
            pair += 1
            codes[start] = Code(tags[start], "open", pair)
            codes[index] = Code(tag, "close", pair)
    return codes


def _lines(chunks: list[_Chunk], limit: int | None) -> list[str]:
    """Join the chunks to lines of balanced length."""
    is_dialogue = bool(chunks) and chunks[0].raw.startswith(_DASHES)
    speeches: list[list[_Chunk]] = []
    for chunk in chunks:
        begins = is_dialogue and chunk.glue == " " and chunk.raw.startswith(_DASHES)
        if begins or not speeches:
            speeches.append([])
        speeches[-1].append(chunk)
    return [line for speech in speeches for line in _balanced(speech, limit)]


def _balanced(chunks: list[_Chunk], limit: int | None) -> list[str]:
    if limit is None:
        return ["".join(chunk.glue + chunk.raw for chunk in chunks).removeprefix(chunks[0].glue)]
    count = len(_greedy(chunks, limit))
    low, high = 0, limit
    while low < high:  # Find the narrowest width that needs no more lines.
        middle = (low + high) // 2
        if len(_greedy(chunks, middle)) <= count:
            high = middle
        else:
            low = middle + 1
    return ["".join(line) for line in _greedy(chunks, high)]


def _greedy(chunks: list[_Chunk], limit: int) -> list[list[str]]:
    lines: list[list[str]] = []
    used = 0
    for chunk in chunks:
        if lines and used + len(chunk.glue) + chunk.width <= limit:
            lines[-1] += [chunk.glue, chunk.raw]
            used += len(chunk.glue) + chunk.width
        else:
            lines.append([chunk.raw])
            used = chunk.width
    return lines
