"""Made SRT subtitles."""

from __future__ import annotations

import re

from hypothesis import strategies as st

SAMPLES = ("srt/*.srt", "srt/omegat/*.srt")
INVALID = {"srt/gb2312.srt": "is not UTF-8 in line 3: found the byte 0xD3"}
WORD = st.sampled_from(
    [
        *(
            "word",
            "Wörter",
            "<i>so</i>",
            "<b>",
            "</i>",
            r"{\an8}",
            "- Yes.",
            "5",
            "<3",
            "a<b>c</b>",
        ),
        *("漢字、", "かな", "<font color='red'>x</font>", "  ", "<\u2060i>", "--", "{x}", "&amp;"),
    ]
)
LINE = st.lists(WORD, min_size=1, max_size=5).map(" ".join).filter(str.strip)
TIMING = "00:00:{:02},000 --> 00:00:{:02},500"


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Cues with and without numbers and texts, extra blank lines, and all newlines."""
    lines: list[str] = draw(st.sampled_from([[], [""]]))
    for number in range(draw(st.integers(0, 6))):
        has_number = draw(st.integers(0, 4)) > 0
        if has_number:
            lines.append(str(number + 1))
        position = draw(st.sampled_from(["", " X1:1 X2:2 Y1:1 Y2:2", "  "]))
        lines.append(TIMING.format(number, number) + position)
        lines += draw(st.lists(LINE, max_size=3))
        lines += draw(st.sampled_from([[""], [""], ["", "  ", ""]]))
    text = draw(st.sampled_from(["\n", "\n", "\r\n", "\r", "\r\r\n"])).join(lines)
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    return text.encode(encoding)


def decoded(data: bytes) -> str:
    """Decode independently of the format."""
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the timing lines."""
    old, new = (
        re.findall(r"^\d\d:.*? --> [^\r\n]*", decoded(data).replace("\r", "\n"), re.M)
        for data in (before, after)
    )
    return old == new
