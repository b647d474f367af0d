"""WebVTT subtitles (`.vtt`).

A unit is the text of a cue; its key is the identifier of the cue, or its number. Codes are all
tags: `<i>`, `<c.yellow>`, `<v Name>`, `<00:01.000>`. The header and the blocks NOTE, STYLE and
REGION are copied, and so are blocks without a timing line, which players ignore.
`dragoman.formats.base.subtitles` says how lines are broken.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

from dragoman.errors import DataError
from dragoman.formats.base.html_encoding import unescape_text
from dragoman.formats.base.subtitles import Cue, Subtitles, blocks, read_lines
from dragoman.formats.base.text_file import TextFile

_TIME = r"(?:\d{2,9}:)?[0-5]\d:[0-5]\d\.\d{3}"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?", re.ASCII)
_COPIED = re.compile(r"(?:NOTE|STYLE|REGION)(?:[ \t].*)?")


class WebVtt(Subtitles):
    """Subtitles, chapters or descriptions in one language."""

    extensions: ClassVar[tuple[str, ...]] = (".vtt",)
    tag: ClassVar[re.Pattern[str]] = re.compile(r"<[^<>]*+>")

    def cues(self, file: TextFile) -> Iterator[Cue]:
        """Yield the cues; raise if the file does not begin with WEBVTT or a timing is invalid."""
        if not re.match(r"WEBVTT(?:[ \t\r\n]|\Z)", file.text):
            raise self._error(1, file.text[:40].split("\n")[0], "WEBVTT")
        count = 0
        for block in blocks(read_lines(file.text), blank=""):
            is_header = block[0].start == 0
            if not is_header and _COPIED.fullmatch(block[0].text):
                continue
            timings = [index for index, line in enumerate(block) if "-->" in line.text]
            for index, end in pairwise([*timings, len(block)]):
                line = block[index]
                if not _TIMING.fullmatch(line.text):
                    expected = "a timing like 00:01.000 --> 00:02.000"
                    raise self._error(line.number, line.text[:40], expected)
                count += 1
                has_identifier = index == 1 and not is_header
                key = block[0].text if has_identifier else str(count)
                yield Cue(key, line, block[index + 1 : end])

    def escape(self, text: str) -> str:
        """Write what would be markup as character references."""
        return text.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "--&gt;")

    def unescape(self, raw: str) -> str:
        """Decode character references."""
        return unescape_text(raw)

    def _error(self, line: int, actual: str, expected: str) -> DataError:
        return DataError(
            f"{self.name} is not a valid WebVTT file in line {line:,}: found {actual!r}, expected "
            f"{expected}.\nCorrect the file; to see the line, type: "
            f"sed -n {line}p {shlex.quote(self.name)}"
        )
