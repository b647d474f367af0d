"""Hypothesis strategies for the parts of XML documents, shared by the made documents."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from lxml import etree

PIECES = (
    st.sampled_from(["word", "Ünder 漢字", "😀", " ", "  ", "\n", "\t", "%s {0}"])
    | st.sampled_from(
        [
            "&amp;",
            "&lt;b&gt;",
            "]]&gt;",
            "&#13;",
            "&#x41;",
            "'",
            "&quot;",
            '"',
            "\\",
            "\\n",
            ">",
            "\u2028",
        ]
    )
    | st.sampled_from(["<![CDATA[<i>&amp;]]>", "<![CDATA[]]>"])
)
COMMENTS = ["<!-- a < b -->", "<?pi x > y?>", "<!---->"]
SPACES = st.sampled_from(["", " ", "\n", "\n    ", "<!-- between -->", "\n\t<?tool x?>\n"])
ENCODINGS = st.sampled_from(
    ["utf-8"] * 4 + ["utf-8-sig", "utf-16", "iso-8859-1", "us-ascii", "windows-1252"]
)


def texts() -> st.SearchStrategy[str]:
    """Text as it stands in a file, with escapes."""
    return st.lists(PIECES, max_size=5).map("".join)


@st.composite
def inline(
    draw: st.DrawFn, singles: Sequence[str], pairs: Sequence[tuple[str, str]], depth: int = 2
) -> str:
    """Text with codes; pairs nest."""
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        parts.append(draw(texts()))
        choice = draw(st.integers(0, 3))
        if choice == 1:
            parts.append(draw(st.sampled_from([*singles, *COMMENTS])))
        elif choice == 2 and depth and pairs:
            opening, closing = draw(st.sampled_from(list(pairs)))
            parts.append(opening + draw(inline(singles, pairs, depth - 1)) + closing)
    parts.append(draw(texts()))
    return "".join(parts)


@st.composite
def encoded(draw: st.DrawFn, body: str, doctype: str = "") -> bytes:
    """The bytes of a document with a declaration, in some encoding."""
    encoding = draw(ENCODINGS)
    declared = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    is_declared = declared != "utf-8" or draw(st.booleans())
    head = f'<?xml version="1.0" encoding="{declared}"?>\n' if is_declared else ""
    text = head + doctype + body + draw(st.sampled_from(["", "\n", "\n<!-- end -->\n"]))
    if draw(st.integers(0, 3)) == 0:
        text = text.replace("\n", "\r\n")
    # Characters outside the encoding: those of CDATA sections cannot be references.
    replaced = text.encode(declared, "xmlcharrefreplace" if "<![CDATA[" not in text else "replace")
    return text.encode(encoding) if encoding == "utf-8-sig" else replaced


def shape(data: bytes, emptied: frozenset[str]) -> list[object]:
    """The tree as lxml reads it: elements and attributes, without the content of some elements."""
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True)
    rows: list[object] = []

    def visit(element: etree._Element, level: int) -> None:
        if not isinstance(element.tag, str):
            rows.append((level, "other", element.text))
            return
        name = element.tag.rpartition("}")[2]
        rows.append((level, element.tag, sorted(element.attrib.items())))
        if name not in emptied:
            rows.append((element.text or "").strip())
            for child in element:
                visit(child, level + 1)
        rows.append((element.tail or "").strip())

    visit(etree.fromstring(data, parser), 0)
    return rows
