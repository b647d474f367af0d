"""Made Java properties."""

from __future__ import annotations

import re

import javaproperties
from hypothesis import strategies as st

SAMPLES = ("properties/*.properties",)
INVALID: dict[str, str] = {}
RAW = st.lists(
    st.sampled_from(
        [
            *("word", "it''s", "{0}", " ", "=", ":", "#", "!", "\t", "é", "ü", "\xa0"),
            *(r"\n", r"\t", r"\\", r"\u00e9", r"\ud83d\ude00", r"\ud83d", r"\:", r"\ ", r"\x"),
            *("\\\n", "\\\n  \t", "\\\n# no comment "),
        ]
    ),
    max_size=8,
).map("".join)
KEY = st.sampled_from(["a", "a.b-c", r"with\ space", r"k\u00e9y", "a", "ключ", r"\#hash", "x'y"])
SEPARATOR = st.sampled_from(["=", " = ", ":", " ", "\t: ", " \\\n  = "])
OTHER = st.sampled_from(["", "  ", "# comment", "  ! ü \\", "#", "\t"])


@st.composite
def entry(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 8)) == 0:
        return draw(KEY)
    return draw(st.sampled_from(["", "  "])) + draw(KEY) + draw(SEPARATOR) + draw(RAW)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Properties with comments, continuation lines, escapes, and all encodings."""
    text = "\n".join(draw(st.lists(entry() | OTHER, max_size=8)))
    text += draw(st.sampled_from(["", "\n", "\n\n", "\\"]))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "iso-8859-1", "ascii", "utf-16"]))
    if encoding in ("iso-8859-1", "ascii"):
        return text.encode(encoding, "ignore")
    return text.encode(encoding)


def decoded(data: bytes) -> str:
    """Decode independently of the format."""
    for encoding in ("utf-16",) if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            break
    return data.decode("iso-8859-1")


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the keys and the comments, as an independent parser reads them."""
    old, new = (
        [
            (type(item), item.key)
            if isinstance(item, javaproperties.KeyValue)
            else re.sub(r"\s+$", "", item.source)
            for item in javaproperties.parse(decoded(data))
        ]
        for data in (before, after)
    )
    return old == new
