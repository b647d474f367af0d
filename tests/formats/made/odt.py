"""OpenDocument texts for the tests of all formats."""

from __future__ import annotations

from hypothesis import strategies as st

from support.office_files import make_zip, structure

SAMPLES: tuple[str, ...] = ()
INVALID: dict[str, str] = {}

_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
NAMESPACES = " ".join(
    f'xmlns:{name}="{_OFFICE}{name if name != "draw" else "drawing"}:1.0"'
    for name in ("office", "text", "table", "draw", "style", "manifest")
)
_MANIFEST = f"""<?xml version="1.0" encoding="UTF-8"?>
<manifest:manifest {NAMESPACES}><manifest:file-entry manifest:full-path="/" manifest:media-type="\
application/vnd.oasis.opendocument.text"/><manifest:file-entry manifest:full-path="content.xml" \
manifest:media-type="text/xml"/></manifest:manifest>"""

_TEXT = st.sampled_from(
    ["word", " two words ", "é &amp; ü", "日本 😀", "&lt;b&gt;", " ", "\n   ", "a\n b", "]]&gt;"]
)
_SINGLE = st.sampled_from(
    [
        "<text:s/>",
        '<text:s text:c="3"/>',
        "<text:tab/>",
        "<text:line-break/>",
        "<text:soft-page-break/>",
        '<text:bookmark text:name="x"/>',
        "<text:page-number>1</text:page-number>",
        '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>'
        "<text:note-body><text:p>A note</text:p><text:p/></text:note-body></text:note>",
        '<draw:frame draw:name="f"><draw:text-box><text:p>In a <text:span>box</text:span></text:p>'
        "</draw:text-box></draw:frame>",
        "<text:span/>",
    ]
)
_INLINE = st.recursive(
    st.one_of(_TEXT, _TEXT, _SINGLE),
    lambda inner: st.builds(
        lambda tags, content: tags[0] + "".join(content) + tags[1],
        st.sampled_from(
            [
                ('<text:span text:style-name="T1">', "</text:span>"),
                ("<text:a office:title='x &amp; y' >", "</text:a >"),
            ]
        ),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)
_BLOCK = st.builds(
    lambda form, content: form.replace("{}", "".join(content)),
    st.sampled_from(
        [
            '<text:p text:style-name="P1">{}</text:p>\r\n',
            '<text:h text:outline-level="1">{}</text:h>',
            "<table:table><table:table-row><table:table-cell><text:p>{}</text:p>"
            "</table:table-cell></table:table-row></table:table>",
            "<text:list><text:list-item><text:p>{}</text:p></text:list-item></text:list>",
        ]
    ),
    st.lists(_INLINE, max_size=5),
)


def document(body: str, header: str = "") -> bytes:
    """Make a document from its text and its header."""
    changes = "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    return make_zip(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "META-INF/manifest.xml": _MANIFEST,
            "styles.xml": f"<office:document-styles {NAMESPACES}><office:master-styles>"
            f'<style:master-page style:name="S"><style:header>{header}</style:header>'
            "</style:master-page></office:master-styles></office:document-styles>",
            "content.xml": '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<office:document-content {NAMESPACES}><office:body><office:text>{changes}{body}"
            "</office:text></office:body></office:document-content>",
        }
    )


def documents() -> st.SearchStrategy[bytes]:
    """Make documents with spans, notes, frames, odd whitespace, changes and a header."""
    return st.builds(document, st.lists(_BLOCK, max_size=4).map("".join), _BLOCK)


def is_equal(before: bytes, after: bytes) -> bool:
    """Whether all elements but those for whitespace are equal, and all members without text."""
    ignored = {"s", "tab", "line-break", "soft-page-break"}
    return structure(before, "", ignored) == structure(after, "", ignored)
