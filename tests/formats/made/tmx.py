"""Made translation memories."""

from __future__ import annotations

from hypothesis import strategies as st

from support.made_xml import SPACES, encoded, inline, shape

SAMPLES = ("tmx/**/*.tmx",)
INVALID: dict[str, str] = {}
SINGLES = (
    '<bpt i="1" type="bold">&lt;b></bpt>',
    '<ept i="1">&lt;/b></ept>',
    '<bpt i="2"/>',
    '<ph x="1">[<sub>alt</sub>]</ph>',
    '<it pos="begin">Café</it>',
    "<ut>{\\i</ut>",
)
PAIRS = (("<hi>", "</hi>"), ('<hi type="bold">', "</hi>"))


@st.composite
def unit(draw: st.DrawFn) -> str:
    attribute = draw(st.sampled_from(["xml:lang", "lang"]))
    languages = draw(st.lists(st.sampled_from(["en", "en-US", "de", "DE_at", "fr"]), max_size=4))
    parts = [draw(st.sampled_from(["", "<note>n</note>", '<prop type="x">p</prop>'])), draw(SPACES)]
    for language in languages:
        mark = draw(st.sampled_from(["", ' changeid="me"', ' changeid="machine-translation"']))
        segment = draw(
            st.sampled_from(["<seg/>", f"<seg>{draw(inline(SINGLES, PAIRS))}</seg>"])
            | st.just("<seg><![CDATA[a<b>]]></seg>")
        )
        parts.append(
            f'<tuv {attribute}="{language}"{mark}>{draw(SPACES)}{segment}{draw(SPACES)}</tuv>'
        )
        parts.append(draw(SPACES))
    return f"<tu>{''.join(parts)}</tu>{draw(SPACES)}"


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Memories with units in some languages, marks, notes and inline codes."""
    units = "".join(draw(st.lists(unit(), max_size=4)))
    doctype = draw(st.sampled_from(["", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n']))
    body = f'<tmx version="1.4"><header srclang="en"/>{draw(SPACES)}<body>{units}</body></tmx>'
    return draw(encoded(body, doctype))


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the trees without texts and marks; after, there can be more texts."""

    def kept(data: bytes) -> list[object]:
        return [
            row
            for row in shape(data, frozenset({"tuv"}))
            if row and not (isinstance(row, tuple) and row[1] == "tuv")
        ]

    return kept(before) == kept(after)
