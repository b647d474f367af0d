r"""SubRip subtitles (`.srt`): numbered cues with a timing line and lines of text.

A unit is the text of a cue; its key is the number of the cue. Codes are `<i>`, `<b>`, `<u>`, `<s>`,
`<font>` and the position marks `{\an8}`. `dragoman.formats.base.subtitles` says how lines are
broken.

SRT has no escapes. Where a text would be read as markup (`<i>`, `{\`, `-->`), an invisible
character, U+2060, is written into it and removed when it is read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.subtitles import Cue, Line, Subtitles, blocks, read_lines
from dragoman.formats.base.text_file import TextFile

_TIME = r"\d{1,9}:\d{1,2}:\d{1,2}(?:[,.]\d{1,9})?"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?", re.ASCII)
_MARKUP = re.compile(r"(<)(?=[A-Za-z/\u2060])|(\{)(?=[\\\u2060])|(--)(?=\u2060*+>)")
_ESCAPED = re.compile(r"(?<=[<{])\u2060|(?<=--)\u2060(?=\u2060*+>)")


class Srt(Subtitles):
    """Subtitles in one language."""

    extensions: ClassVar[tuple[str, ...]] = (".srt",)
    tag: ClassVar[re.Pattern[str]] = re.compile(
        r"</?(?:i|b|u|s|font)(?:\s[^<>]*+)?>|\{\\[^{}]*+\}", re.IGNORECASE
    )

    def cues(self, file: TextFile) -> Iterator[Cue]:
        """Yield the cues; raise at a text without a timing line."""
        count = 0
        for block in blocks(read_lines(file.text), blank=" \t"):
            timings = [index for index, line in enumerate(block) if _TIMING.fullmatch(line.text)]
            if not timings or timings[0] > 1:
                raise self._error(block[0])
            numbers = [self._number(block, index) for index in timings]
            ends = [index - bool(number) for index, number in zip(timings, numbers, strict=True)]
            for index, number, end in zip(timings, numbers, [*ends[1:], len(block)], strict=True):
                count += 1
                yield Cue(number or str(count), block[index], block[index + 1 : end])

    def _number(self, block: list[Line], timing: int) -> str:
        """Return the line before a timing, if it is the number of the cue."""
        before = block[timing - 1].text.strip() if timing else ""
        # After a cue without a blank line, it is a number only if it looks like one.
        return before if timing == 1 or before.isdecimal() else ""

    def escape(self, text: str) -> str:
        """Write an invisible character into what looks like markup."""
        return _MARKUP.sub("\\g<0>\u2060", text)

    def unescape(self, raw: str) -> str:
        """Remove the invisible characters."""
        return _ESCAPED.sub("", raw)

    def _error(self, line: Line) -> DataError:
        return DataError(
            f"{self.name} is not a valid SRT file in line {line.number:,}: found "
            f"{line.text[:40]!r}, expected a cue: its number, a line 00:00:01,000 --> 00:00:02,000 "
            f"and its text, without blank lines.\nCorrect the file; to see the line, type: "
            f"sed -n {line.number}p {shlex.quote(self.name)}"
        )
