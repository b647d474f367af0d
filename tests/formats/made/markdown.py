"""Markdown files for the tests of all formats."""

from __future__ import annotations

from hypothesis import strategies as st
from markdown_it import MarkdownIt

SAMPLES = ("markdown/*.md",)
INVALID: dict[str, str] = {}

_TEXT = st.sampled_from(
    ["word", "two words", "é 日本", "\\*star\\*", "&amp; &copy;", "snake_case", "1 < 2", "x [y] z"]
    * 2
    + ["\\", "a * b", "C#", "`", "&#032;", "![", "](", "~", "_", "**"]
)
_SINGLE = st.sampled_from(
    [
        "`code *x*`",
        "``a ` b``",
        "<https://example.org/a_b>",
        "<br>",
        "[^1]",
        "<!-- note -->",
        "<kbd>F1</kbd>",
        "![](x.png)",
        "[shortcut]",
        "{.class}",
    ]
)


def _pair(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    tags = st.sampled_from(
        [
            ("[", "](https://example.org/a_(b) 'Title')"),
            ("![", "](<a b.png>)"),
            ("[", "][label]"),
            ("<b>", "</b>"),
            ('<a title="x">', "</a>"),
        ]
    )
    return st.builds(lambda tag, content: tag[0] + content + tag[1], tags, inner)


# Emphasis directly inside of emphasis cannot always be written again (`**a **b****`).
_EMPHASIS = st.builds(
    lambda mark, content: f"{mark}{content}{mark}",
    st.sampled_from(["**", "*", "_", "~~"]),
    st.sampled_from(["word", "two words", "`code`", "[link](x)", "é"]),
)
_INLINE = st.recursive(
    st.one_of(_TEXT, _TEXT, _TEXT, _SINGLE, _EMPHASIS),
    lambda inner: st.lists(st.one_of(inner, _pair(inner)), min_size=1, max_size=3).map(" ".join),
    max_leaves=6,
)
_LINES = st.lists(_INLINE, min_size=1, max_size=3)
_BLOCK = st.one_of(
    _LINES.map("\n".join),
    _LINES.map("  \n".join),
    _INLINE.map("# {} {{ #anchor }}".format),
    _INLINE.map("### {} ###".format),
    _LINES.map(lambda lines: "\n".join(f"> {line}" for line in lines)),
    _LINES.map(lambda lines: "\n".join(f"* {line}" for line in lines)),
    _LINES.map(lambda lines: "1. " + "\n   ".join(lines) + "\n\n    * [ ] nested\n\n   more"),
    _INLINE.map("{}\n===".format),
    st.tuples(_TEXT, _TEXT).map(
        lambda cells: "| a | b |\n|---|:-:|\n| {} | {} |".format(
            *(cell.replace("|", "\\|") for cell in cells)
        )
    ),
    _INLINE.map("[^1]: {}".format),
    st.sampled_from(
        [
            "```python\n# *code*\n```",
            "    indented *code*",
            "<div>\n*html*\n</div>",
            "[label]: https://example.org 'T'",
            "[shortcut]: <x>",
            "---",
            "/// note | Title\n\ninside\n\n///",
            '!!! tip "Title"\n    inside\n',
            "{* ../a.py hl[1] *}",
            "- a\n\n  ```\n  x\n  ```\n- b",
        ]
    ),
)


def documents() -> st.SearchStrategy[bytes]:
    """Make files with all kinds of blocks."""
    return st.builds(
        lambda start, parts, newline: (
            (start + "\n\n".join(parts) + "\n").replace("\n", newline).encode()
        ),
        st.sampled_from(["", "---\ntitle: '# *x*'\n---\n\n", "\ufeff"]),
        st.lists(_BLOCK, max_size=5),
        st.sampled_from(["\n", "\n", "\r\n"]),
    )


def structure(data: bytes) -> list[tuple[str, str, str]]:
    """Return the tokens of the parser markdown-it without texts."""
    tokens = []
    text = data.decode().removeprefix("\ufeff")
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        tokens.append((token.type, token.tag, token.markup))
        for child in token.children or []:
            if child.type not in ("text", "softbreak", "text_special"):
                target = child.attrs.get("href", child.attrs.get("src", ""))
                tokens.append((child.type, child.markup, str(target)))
    return tokens


def is_equal(before: bytes, after: bytes) -> bool:
    """Whether the files have the same structure, by the parser markdown-it."""
    return structure(before) == structure(after)
