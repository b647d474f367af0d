"""Pages for the tests of all formats."""

from __future__ import annotations

from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

SAMPLES = ("html/*.html", "tmx/**/*.htm")
INVALID: dict[str, str] = {}

_TEXT_ATTRIBUTES = {"alt", "title", "placeholder", "content", "value", "label", "aria-label"}

_WORDS = st.sampled_from(
    [
        "word",
        "two words",
        " ",
        "\n  ",
        "\t",
        "é",
        "日本",
        "😀",
        "&amp;",
        "&lt;b>",
        "&nbsp;",
        "&#8364;",
        "&copy",
        "a < b",
        "1 &2",
        "x>y",
        '"q"',
        "&#032;",
        "\r\n",
    ]
)
_VALUE = st.sampled_from(
    ["value", "it's &quot;so&quot;", "ä &amp; b", "a=1&copy=2", " padded ", ""]
)
_SINGLE = st.sampled_from(
    [
        "<br>",
        "<br />",
        "<!-- note -->",
        "<img src=a.png>",
        "<wbr>",
        "<code>x &lt; <i>y</i></code>",
        "<kbd>Ctrl</kbd>",
        '<span translate="no">Name</span>',
        '<b class="a notranslate">N</b>',
        "<svg><title>t</title><path d=m/></svg>",
        "<math><mi>x</mi></math>",
        "<input type=text>",
    ]
)
_WITH_TEXT = st.builds(
    lambda form, value: form.format(value),
    st.sampled_from(
        ['<img alt="{}" src=a>', '<input type="submit" value="{}">', '<img\n title="{}"\n/>']
    ),
    _VALUE,
)


def _pair(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    tags = st.sampled_from(
        [
            ("<b>", "</b>"),
            ("<a href='x?a=1&amp;b=2'>", "</a>"),
            ("<EM>", "</em>"),
            ("<x-y>", "</x-y>"),
            ('<abbr title="One thing">', "</abbr>"),
            ('<abbr title="Two">', "</abbr >"),
            ("<span lang=en\n>", "</span>"),
            ("<b>", ""),
            ("", "</i>"),
            ("<b><i>", "</b></i>"),
        ]
    )
    return st.builds(lambda tag, content: tag[0] + content + tag[1], tags, inner)


_INLINE = st.recursive(
    st.one_of(_WORDS, _WORDS, _SINGLE, _WITH_TEXT),
    lambda inner: st.lists(st.one_of(inner, _pair(inner)), max_size=4).map("".join),
    max_leaves=12,
)


def _block(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = st.sampled_from(
        [
            "<p>{}</p>\n",
            "<p>{}",
            "<div title='Box'>{}</div>",
            "<ul><li>{}<li>two</ul>",
            "<h1>{}</h1>",
            "<table><tr><td>{}<td>b</table>",
            "<pre>{}</pre>",
            "<p translate=no>{}</p>",
            "{}<hr>",
            "<a href=x>{}</a>",
            "<section>\r\n{}\r\n</section>",
            "<button>{}</button>",
        ]
    )
    return st.builds(lambda form, content: form.replace("{}", content), forms, inner)


_FLOW = st.recursive(
    _INLINE, lambda inner: st.lists(_block(inner), max_size=3).map("".join), max_leaves=8
)
_HEAD = st.sampled_from(
    [
        "",
        "<title>A &amp; B</title>",
        '<meta name="description" content="About it">',
        "<script>if (a<b && '</p>') {}</script>",
        "<style>p > b {}</style>",
        "<!-- <p>no</p> -->",
        "<script><!-- <script> </script> --></script>",
        "<title> spaced </title>",
    ]
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Make pages with optional tags left out, in several encodings."""
    encoding, declaration = draw(
        st.sampled_from(
            [
                ("utf-8", ""),
                ("utf-8-sig", ""),
                ("utf-16", ""),
                ("utf-8", "<meta charset=utf-8>"),
                (
                    "cp1252",
                    '<meta http-equiv=Content-Type content="text/html; charset=iso-8859-1">',
                ),
            ]
        )
    )
    start = draw(st.sampled_from(["<!DOCTYPE html>\n<html lang='en'>\n<head>", "<html><head>", ""]))
    head = "".join(draw(st.lists(_HEAD, max_size=2)))
    body = draw(_FLOW)
    end = draw(st.sampled_from(["", "</body></html>\n"]))
    page = f"{start}{declaration}{head}<body>{body}{end}"
    return page.encode(encoding, "xmlcharrefreplace")


def tree(data: bytes) -> list[tuple[str, tuple[tuple[str, str | None], ...]]]:
    """Return the elements in the order of the page, without the texts that can be translated."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    parser = LexborHTMLParser(data.decode(encoding, "replace"))
    assert parser.root is not None
    return [
        (
            str(node.tag),
            tuple(
                (name, None if name in _TEXT_ATTRIBUTES or name == "lang" else value)
                for name, value in sorted(node.attributes.items())
                if node.tag != "html" or name != "lang"
            ),
        )
        for node in parser.root.traverse(include_text=False)
    ]


def is_equal(before: bytes, after: bytes) -> bool:
    """Whether the pages have the same elements, by the HTML parser Lexbor."""
    return tree(before) == tree(after)
