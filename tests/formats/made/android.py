"""Made files of Android string resources."""

from __future__ import annotations

from hypothesis import strategies as st

from support.made_xml import SPACES, encoded, inline, shape

SAMPLES = ("android/**/strings.xml",)
INVALID: dict[str, str] = {}
SINGLES = (
    '<xliff:g id="n" example="3">%1$d</xliff:g>',
    "<br/>",
    '"  a\n  b "',
    "\\u0020",
    "\\'",
    "\\@",
    "\\ud83d\\ude00",
    "\\u12",
    "@string/x",
    "?",
)
PAIRS = (("<b>", "</b>"), ('<a href="https://x.org/?a=1&amp;b">', "</a>"))


@st.composite
def resource(draw: st.DrawFn, number: int) -> str:
    content = inline(SINGLES, PAIRS) | st.sampled_from(
        ["@string/ok", " @null ", "\\@string/ok", "? "]
    )
    lock = draw(st.sampled_from(["", "", ' translatable="false"', ' product="tablet"']))
    name = f'name="n{number}"{lock}'
    kind = draw(st.integers(0, 4))
    if kind < 3:
        return draw(
            st.sampled_from([f"<string {name}/>", f"<string {name}>{draw(content)}</string>"])
        )
    items = draw(st.lists(content, max_size=3))
    if kind == 3:
        inside = "".join(f"{draw(SPACES)}<item>{item}</item>" for item in items)
        return f"<string-array {name}>{inside}</string-array>"
    forms = zip(["one", "few", "other"], items, strict=False)
    inside = "".join(f'<item quantity="{form}">{item}</item>' for form, item in forms)
    return f"<plurals {name}>{inside}</plurals>"


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Files with strings, arrays, plurals, references and escapes."""
    parts = [draw(SPACES)]
    for number in range(draw(st.integers(0, 5))):
        other = draw(st.sampled_from(["", '<color name="c">#fff</color>', "<skip/>"]))
        parts += [other, draw(resource(number)), draw(SPACES)]
    namespace = 'xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2"'
    return draw(encoded(f"<resources {namespace}>{''.join(parts)}</resources>"))


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the trees without texts."""
    emptied = frozenset({"string", "item"})
    return shape(before, emptied) == shape(after, emptied)
