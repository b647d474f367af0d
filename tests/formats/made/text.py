"""Made plain text."""

from __future__ import annotations

import re

from hypothesis import strategies as st

SAMPLES = ("tmx/compliance-kit/*.txt",)
INVALID: dict[str, str] = {}
LINE = st.text(
    st.sampled_from("ab é漢\t\f\u2028\x85")
    | st.characters(codec="utf-8", exclude_categories=["Cc"])
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Lines with any newlines, in all Unicode encodings."""
    newline = st.sampled_from(["\n", "\r\n", "\r"])
    text = "".join(line + draw(newline) for line in draw(st.lists(LINE, max_size=6)))
    text += draw(st.sampled_from(["", "end", "\n\n"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32"]))
    return text.removeprefix("\ufeff").encode(encoding)


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the number of lines."""
    old, new = (
        len(re.findall(rb"\r\0*\n|[\r\n]", data)) if data[:1] not in b"\xff\xfe" else 0
        for data in (before, after)
    )
    return old == new
