"""PowerPoint presentations for the tests of all formats."""

from __future__ import annotations

from hypothesis import strategies as st

from support.office_files import make_zip, structure

SAMPLES: tuple[str, ...] = ()
INVALID: dict[str, str] = {}

_NAMESPACES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
)
_RUN = st.builds(
    "<a:r>{}<a:t>{}</a:t></a:r>".format,
    st.sampled_from(
        [
            "",
            '<a:rPr lang="en-US" dirty="0"/>',
            '<a:rPr lang="en" b="1"/>',
            '<a:rPr sz="1800"><a:x/></a:rPr>',
        ]
    ),
    st.sampled_from(["word", " two words ", "é &amp; ü", "日本 😀", "&lt;b&gt;", " ", "a\tb", ""]),
)
_OTHER = st.sampled_from(
    [
        "<a:br/>",
        '<a:br><a:rPr b="1"/></a:br>',
        '<a:fld id="{1}" type="slidenum"><a:t>1</a:t></a:fld>',
    ]
)
_PARAGRAPH = st.builds(
    lambda start, inside, end: f"<a:p>{start}{''.join(inside)}{end}</a:p>",
    st.sampled_from(["", '<a:pPr lvl="1"/>']),
    st.lists(st.one_of(_RUN, _RUN, _OTHER), max_size=5),
    st.sampled_from(["", '<a:endParaRPr lang="en"/>']),
)


def document(*slides: str) -> bytes:
    """Make the parts of a presentation that matter."""
    members = {"ppt/presentation.xml": f"<p:presentation {_NAMESPACES}/>"}
    for number, content in enumerate(slides, 1):
        body = f"<p:sp><p:txBody><a:bodyPr/>{content}</p:txBody></p:sp>"
        members[f"ppt/slides/slide{number}.xml"] = f"<p:sld {_NAMESPACES}>{body}</p:sld>"
    members["ppt/slideLayouts/slideLayout1.xml"] = (
        f"<p:sldLayout {_NAMESPACES}><a:p><a:r><a:t>Layout</a:t></a:r></a:p></p:sldLayout>"
    )
    return make_zip(members)


def documents() -> st.SearchStrategy[bytes]:
    """Make presentations with runs, line breaks and fields."""
    slide = st.lists(_PARAGRAPH, max_size=3).map("".join)
    return st.builds(document, slide, slide)


def is_equal(before: bytes, after: bytes) -> bool:
    """Whether everything but runs is equal."""
    ignored = {"r", "t", "rPr", "br"}
    return structure(before, "slides/", ignored) == structure(after, "slides/", ignored)
