"""Made WebVTT subtitles."""

from __future__ import annotations

import re

from hypothesis import strategies as st

SAMPLES = ("vtt/*.vtt",)
INVALID: dict[str, str] = {}
WORD = st.sampled_from(
    [
        *(
            "word",
            "Wörter",
            "<i>so</i>",
            "<b>",
            "</i>",
            "<v Fred Smith>",
            "- Yes.",
            "5",
            "&lt;i&gt;",
        ),
        *("漢字、", "かな", "<c.red.bg>x</c>", "  ", "<00:00.500>", "--", "&amp;", "&nbsp;", "a>b"),
    ]
)
LINE = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
OTHER = st.sampled_from(
    [
        ["NOTE", "a comment with <i>"],
        ["NOTE short"],
        ["STYLE", "::cue { color: red }"],
        ["REGION", "id:fred"],
        ["ignored", "block", "of lines"],
    ]
)


@st.composite
def cue(draw: st.DrawFn, number: int) -> list[str]:
    identifier = draw(st.sampled_from([[], [str(number)], ["intro - 1"]]))
    settings = draw(st.sampled_from(["", " align:start line:0%", "\tposition:10%"]))
    hours = draw(st.sampled_from(["", "00:", "100:"]))
    timing = f"{hours}00:{number:02}.000 --> {hours}00:{number:02}.500{settings}"
    return [*identifier, timing, *draw(st.lists(LINE, max_size=3))]


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Cues, comments, styles and regions with all newlines."""
    lines = [draw(st.sampled_from(["WEBVTT", "WEBVTT - title", "WEBVTT\tx"]))]
    lines += draw(st.sampled_from([[""], ["Kind: captions", ""], ["", "", ""]]))
    for number in range(draw(st.integers(0, 6))):
        lines += draw(cue(number) | OTHER)
        lines += draw(st.sampled_from([[""], ["", ""]]))
    text = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"])).join(lines)
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare everything before the first cue, and all timing lines."""
    old, new = (
        (text.partition("-->")[0].strip(), re.findall(r"^.*-->.*", text, re.M))
        for text in (data.decode("utf-8-sig").replace("\r", "\n") for data in (before, after))
    )
    return old == new
