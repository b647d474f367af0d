"""Made Qt Linguist files."""

from __future__ import annotations

from hypothesis import strategies as st

from support.made_xml import SPACES, encoded, inline, shape, texts

SAMPLES: tuple[str, ...] = ()
INVALID: dict[str, str] = {}


@st.composite
def message(draw: st.DrawFn) -> str:
    content = inline(('<byte value="x1b"/>',), ())
    kind = draw(st.sampled_from(["", ' type="unfinished"', ' type="obsolete"', " type='vanished'"]))
    numerus = draw(st.booleans())
    if numerus:
        count = draw(st.integers(0, 3))
        forms = [
            draw(st.sampled_from(["<numerusform/>", f"<numerusform>{draw(content)}</numerusform>"]))
            for _ in range(count)
        ]
        inside = "".join(f"{draw(SPACES)}{form}" for form in forms) + draw(SPACES)
    else:
        inside = draw(content)
    translation = draw(
        st.sampled_from([f"<translation{kind}>{inside}</translation>"] * 4)
        | st.sampled_from([f"<translation{kind}/>", ""])
    )
    comment = draw(st.sampled_from(["", "<comment>c</comment>", "<extracomment>e</extracomment>"]))
    attribute = ' numerus="yes"' if numerus else ""
    return (
        f'<message{attribute}>{draw(SPACES)}<location filename="a.cpp" line="3"/>{draw(SPACES)}'
        f"<source>{draw(texts())}</source>{draw(SPACES)}{comment}{translation}{draw(SPACES)}"
        "</message>"
    )


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Files with plural forms, unfinished and obsolete messages."""
    contexts = ""
    for number in range(draw(st.integers(0, 3))):
        messages = "".join(draw(st.lists(message(), max_size=3)))
        contexts += (
            f"<context>{draw(SPACES)}<name>C{number}</name>{messages}</context>{draw(SPACES)}"
        )
    language = draw(st.sampled_from(["", ' language="de"']))
    return draw(encoded(f'<TS version="2.1"{language}>{contexts}</TS>', "<!DOCTYPE TS>\n"))


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the trees without translations."""

    def kept(data: bytes) -> list[object]:
        rows = shape(data, frozenset({"translation"}))
        return [
            row
            for row in rows
            if row and not (isinstance(row, tuple) and row[1] in ("translation", "TS"))
        ]

    return kept(before) == kept(after)
