"""Made DocBook and Mallard manuals."""

from __future__ import annotations

from hypothesis import strategies as st

from support.made_xml import SPACES, encoded, inline, shape

SAMPLES = ("docbook/*.docbook", "mallard/*.page")
INVALID: dict[str, str] = {}
SINGLES = (
    "&product;",
    '<xref linkend="a"/>',
    "<indexterm><primary>Café</primary></indexterm>",
    '<phrase its:translate="no">Qt</phrase>',
)
PAIRS = (
    ("<emphasis>", "</emphasis>"),
    ('<ulink url="https://x.org/?a&amp;b">', "</ulink>"),
    ("<guilabel>", "</guilabel>"),
)


@st.composite
def block(draw: st.DrawFn, depth: int = 2) -> str:
    content = inline(SINGLES, PAIRS)
    kinds = ["para", "title", "screen", "empty", *(["list", "mixed", "section"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "screen":
            return f"<screen>{draw(content)}</screen>"
        case "empty":
            return draw(st.sampled_from(["<para/>", "<para></para>", "<imagedata fileref='x'/>"]))
        case "list":
            items = draw(st.lists(block(depth - 1), max_size=2))
            inside = "".join(f"<listitem>{draw(SPACES)}{item}</listitem>" for item in items)
            return f"<itemizedlist>{inside}</itemizedlist>"
        case "mixed":
            return f"<para>{draw(content)}{draw(block(depth - 1))}{draw(content)}</para>"
        case "section":
            return f'<section id="s">{draw(SPACES)}{draw(block(depth - 1))}</section>'
        case name:
            return f"<{name}>{draw(content)}</{name}>"


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Manuals with nested blocks, mixed content, entities and program listings."""
    inside = "".join(draw(st.lists(block(), max_size=5)))
    doctype = '<!DOCTYPE book PUBLIC "x" "y.dtd" [<!ENTITY product "<app>P</app>">]>\n'
    root = draw(st.sampled_from(["book", "article", "page"]))
    namespace = 'xmlns:its="http://www.w3.org/2005/11/its"'
    return draw(encoded(f"<{root} {namespace}>{draw(SPACES)}{inside}</{root}>", doctype))


def is_equal(before: bytes, after: bytes) -> bool:
    """Compare the trees without inline elements and text."""
    inline_names = ("emphasis", "ulink", "guilabel", "xref", "indexterm", "primary", "phrase")

    def kept(data: bytes) -> list[object]:
        return [
            row[1:]
            for row in shape(data, frozenset())
            if isinstance(row, tuple) and row[1] != "other" and row[1] not in inline_names
        ]

    return kept(before) == kept(after)
