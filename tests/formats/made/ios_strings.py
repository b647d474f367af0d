"""Made strings files of Apple."""

from __future__ import annotations

import re

from hypothesis import strategies as st

SAMPLES: tuple[str, ...] = ()
INVALID: dict[str, str] = {}
RAW = st.lists(
    st.sampled_from(
        [
            *("word", "%@", "%1$@", "é", "漢", "'", " ", "=", ";", "/*", "//", "😀"),
            *(r"\n", r"\"", r"\\", r"\U00e9", r"\Ud83d\Ude00", r"\Ud83d", r"\t", r"\101", r"\351"),
            *("\n", "\t"),
        ]
    ),
    max_size=6,
).map("".join)
QUOTED = RAW.map(lambda text: f'"{text}"')
KEY = QUOTED | st.sampled_from(["plain", "NSAppName", "a.b-c", "'single'"])
SPACE = st.sampled_from(["", " ", "\n", " /* in between */ ", " // to the end\n"])
OTHER = st.sampled_from(["", "/* Title */", "// line", '/* two\n   lines; " */', "/**/"])


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Entries with comments anywhere, in UTF-8 and UTF-16."""
    lines = []
    for _ in range(draw(st.integers(0, 6))):
        lines.append(draw(OTHER))
        value = "" if draw(st.integers(0, 5)) == 0 else draw(SPACE) + "=" + draw(SPACE) + draw(KEY)
        lines.append(draw(KEY) + value + draw(SPACE) + ";")
    text = "\n".join([*lines, draw(OTHER), ""]).replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))


TOKEN = r'/\*.*?\*/|//[^\r\n]*|"(?:[^"\\]|\\.)*"'
"""A comment or a string."""


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare what is left without the comments and the strings."""
    old, new = (
        re.sub(TOKEN, "", decoded(data), flags=re.DOTALL).count(";") for data in (before, after)
    )
    return old == new


def decoded(data: bytes) -> str:
    """Decode independently of the format."""
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
