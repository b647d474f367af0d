"""Word documents for the tests of all formats."""

from __future__ import annotations

from hypothesis import strategies as st

from support.office_files import make_zip, structure

SAMPLES: tuple[str, ...] = ()
INVALID: dict[str, str] = {}

NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:v="urn:schemas-microsoft-com:vml"'
)
_TYPES = """<?xml version="1.0" encoding="UTF-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument\
.wordprocessingml.document.main+xml"/></Types>"""
_RELATIONS = """<?xml version="1.0" encoding="UTF-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/\
officeDocument" Target="word/document.xml"/></Relationships>"""

_TEXT = st.sampled_from(
    ["word", " two words ", "é &amp; ü", "日本 😀", "&lt;b&gt;", " ", "]]&gt;", "a\n b", ""]
)
_FORMATTING = st.sampled_from(
    [
        "",
        "",
        "<w:rPr><w:b/></w:rPr>",
        '<w:rPr><w:i/><w:lang w:val="en-US"/></w:rPr>',
        "<w:rPr></w:rPr>",
        "<w:rPr><w:noProof/><w:b/></w:rPr>",
        '<w:rPr><w:color w:val="FF0000"/></w:rPr>',
    ]
)
_RUN_CHILD = st.one_of(
    st.builds('<w:t xml:space="preserve">{}</w:t>'.format, _TEXT),
    st.builds("<w:t>{}</w:t>".format, _TEXT),
    st.sampled_from(
        [
            "<w:tab/>",
            "<w:br/>",
            '<w:br w:type="page"/>',
            '<w:footnoteReference w:id="1"/>',
            "<w:lastRenderedPageBreak/>",
            "<w:noBreakHyphen/>",
            "<w:pict><v:textbox><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p>"
            "<w:p/></w:txbxContent></v:textbox></w:pict>",
            "<w:drawing><x:y xmlns:x='z'>picture</x:y></w:drawing>",
        ]
    ),
)
_RUN = st.builds(
    lambda formatting, children: f'<w:r w:rsidR="00A1">{formatting}{"".join(children)}</w:r>',
    _FORMATTING,
    st.lists(_RUN_CHILD, max_size=3),
)
_FIELD = st.sampled_from(
    [
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>1</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>HYPERLINK "x"</w:instrText>'
        '</w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>a link</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        '<w:fldSimple w:instr="DATE"><w:r><w:t>today</w:t></w:r></w:fldSimple>',
    ]
)
_MARK = st.sampled_from(
    [
        '<w:bookmarkStart w:id="0" w:name="x"/>',
        '<w:bookmarkEnd w:id="0"/>',
        '<w:proofErr w:type="spellStart"/>',
        '<w:del w:id="3"><w:r><w:delText>gone</w:delText></w:r></w:del>',
    ]
)
_INLINE = st.recursive(
    st.one_of(_RUN, _RUN, _RUN, _FIELD, _MARK),
    lambda inner: st.builds(
        lambda tags, content: tags[0] + "".join(content) + tags[1],
        st.sampled_from(
            [
                ('<w:hyperlink r:id="rId9">', "</w:hyperlink>"),
                ('<w:ins w:id="4">', "</w:ins>"),
                ("<w:sdt><w:sdtPr/><w:sdtContent>", "</w:sdtContent></w:sdt>"),
            ]
        ),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)
_PARAGRAPH = st.builds(
    lambda properties, content: f"<w:p>{properties}{''.join(content)}</w:p>",
    st.sampled_from(["", '<w:pPr><w:pStyle w:val="Heading1"/><w:rPr><w:b/></w:rPr></w:pPr>']),
    st.lists(_INLINE, max_size=6),
)


def document(body: str, **parts: str) -> bytes:
    """Make a document from the content of its body and of further parts."""
    declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'
    members = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _RELATIONS,
        "word/document.xml": f"{declaration}<w:document {NAMESPACES}><w:body>{body}</w:body>"
        "</w:document>",
    }
    for name, content in parts.items():
        element = "hdr" if name.startswith("header") else "footnotes"
        root = f"<w:{element} {NAMESPACES}>{content}</w:{element}>"
        members[f"word/{name}.xml"] = declaration + root
    members["docProps/app.xml"] = "<Properties/>"
    return make_zip(members)


def documents() -> st.SearchStrategy[bytes]:
    """Make documents with runs, links, fields, text boxes, changes, a header and footnotes."""
    body = st.lists(_PARAGRAPH, max_size=4).map("".join)
    table = "<w:tbl><w:tr><w:tc>{}</w:tc></w:tr></w:tbl>"
    return st.builds(
        lambda first, cell, header, note: document(
            first + table.format(cell),
            header1=header,
            footnotes=f'<w:footnote w:id="1">{note}</w:footnote>',
        ),
        body,
        _PARAGRAPH,
        _PARAGRAPH,
        _PARAGRAPH,
    )


def is_equal(before: bytes, after: bytes) -> bool:
    """Whether everything but runs is equal, and all members without text are."""
    ignored = {"r", "t", "rPr", "tab", "br", "proofErr", "lastRenderedPageBreak", "lang"}
    return structure(before, "word/", ignored) == structure(after, "word/", ignored)
