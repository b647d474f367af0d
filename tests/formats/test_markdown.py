"""Markdown files: units, escapes, and that another parser sees the same structure."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Target, plain_text
from dragoman.formats.markdown import MarkdownDocument
from formats.made import markdown as made
from support.document_checks import (
    check_round_trip,
    check_written,
    contents,
    every_second,
    hostile,
    shown,
    upper_case,
)
from support.shared_data import shared_data

PAGE = """\
---
title: Not *this*
---
# The title { #the-title }

A *short* text with `code`, a [link **here**](a.md "Tip")
and <b>HTML</b>.  
New line.

!!! note "Not this"
    Inside of a note.

/// tip

* one
    * two

          indented_code()

* three

///

> quoted
> text

| A | B \\| C |
|---|---|
| ![alt](x.png) | |

Second title
------------

```
no
```
<div>
no
</div>

See [the guide][guide], [guide], [other] and[^1].

[guide]: x.md
[^1]: The note.
"""


def write(data: str, *contents: tuple[str | Code, ...] | None) -> str:
    targets = [None if content is None else Target(content) for content in contents]
    return b"".join(MarkdownDocument(data.encode(), "a.md").write(targets)).decode()


def test_the_units_of_a_file():
    units = check_round_trip(MarkdownDocument, PAGE.encode(), "a.md")
    assert shown(units) == [
        "The title",
        'A [*]short[*] text with [`code`], a [[]link [**]here[**][](a.md "Tip")]\n'
        "and [<b>]HTML[</b>].[  \n]New line.",
        "Inside of a note.",
        "one",
        "two",
        "three",
        "quoted\ntext",
        "A",
        "B | C",
        "[![]alt[](x.png)]",
        "Second title",
        "See [[]the guide[][guide]], [[]guide[][guide]], [other] and[[^1]].",
        "The note.",
    ]
    assert [unit.line for unit in units][:5] == [4, 6, 11, 15, 16]


def test_only_the_text_changes():
    lines = PAGE.split("\n")
    written = write(PAGE, *[None] * 6, ("zwei\nZeilen\nund mehr",), *[None] * 6)
    expected = [*lines[:23], "> zwei", "> Zeilen", "> und mehr", *lines[25:]]
    assert written.split("\n") == expected
    written = write(PAGE, *[None] * 4, ("2. Teil\nmehr",), *[None] * 8)
    assert "    * 2\\. Teil\n      mehr\n" in written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# x", "\\# x"),
        ("- x", "\\- x"),
        ("1. x", "1\\. x"),
        ("1.5 x", "1.5 x"),
        ("> x", "\\> x"),
        ("a > b", "a > b"),
        ("2 * 3 *", "2 \\* 3 \\*"),
        ("snake_case _x_", "snake_case \\_x\\_"),
        ("[x](y)", "\\[x\\](y)"),
        ("<b> 1 < 2", "\\<b> 1 < 2"),
        ("&amp; & x", "\\&amp; & x"),
        ("a\n\nb", "a&#010;&#010;b"),
        ("a\n=== ", "a\n\\===&#032;"),
        ("/// x", "\\/// x"),
        ("{ #x }", "\\{ #x }"),
        ("C:\\x", "C:\\\\x"),
    ],
)
def test_text_is_escaped_where_it_must_be(text, expected):
    assert write("word\n", (text,)) == f"{expected}\n"
    rendered = MarkdownIt("commonmark").parse(f"{expected}\n")
    assert [token.type for token in rendered] == ["paragraph_open", "inline", "paragraph_close"]


def test_a_heading_and_a_cell_have_one_line():
    assert write("# a { #b }\n", ("x\ny #",)) == "# x&#010;y \\# { #b }\n"
    assert write("|a|\n|-|\n|b|\n", None, ("x|y\nz",)) == "|a|\n|-|\n|x\\|y&#010;z|\n"


def test_emphasis_is_written_so_that_it_is_read_again():
    _, opening, _, closing = contents(MarkdownDocument(b"a **b**", "a.md"))[0]
    assert write("a **b**", ("a", opening, "b", closing)) == "a**b**"
    assert write("a **b**", ("a", opening, "(b)", closing, "c")) == "&#97;**(b)**&#99;"
    assert write("a **b**", ("a", opening, " b ", closing)) == "&#97;**&#032;b&#032;**"
    assert write("a **b**", ("a", opening, closing)) == "a"


def test_what_cannot_be_read_or_written_is_refused():
    with pytest.raises(DataError, match=r"a\.md is not valid UTF-8 in line 2: found the byte 0xfc"):
        list(MarkdownDocument(b"a\n\xfc", "a.md").units())
    with pytest.raises(DataError, match=r"line 1 of a\.md contains the character U\+0000"):
        write("a", ("\0",))


@pytest.mark.slow
def test_samples():
    paths = sorted(shared_data().joinpath("formats").glob(made.SAMPLES[0]))
    assert len(paths) == 6
    for path in paths:
        data = path.read_bytes()
        check_round_trip(MarkdownDocument, data, str(path))
        for change in (upper_case, hostile, every_second):
            written = check_written(MarkdownDocument, data, str(path), change)
            assert made.is_equal(data, written)


@pytest.mark.slow
@given(made.documents(), st.data())
def test_texts_survive(data, draw):
    texts = st.text(
        st.one_of(
            st.sampled_from("#*_-+=>[]()!`~|\\&;<:./1 \n\t{}^a"),
            st.characters(exclude_categories=("Cs", "Cc", "Cn")),
        ),
        min_size=1,
    )

    def change(number, content):
        return tuple(
            part if isinstance(part, Code) else draw.draw(texts, f"text {number}")
            for part in content
        )

    check_written(MarkdownDocument, data, "a.md", change)


@given(made.documents())
def test_the_texts_are_those_that_a_parser_sees(data):
    """Code, HTML blocks and markers are not in units, by the parser markdown-it."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    seen = parser.render(data.decode().removeprefix("\ufeff"))
    units = list(MarkdownDocument(data, "a.md").units())
    hidden = ("indented", "*html*", "# *code*", "https://example.org 'T'")
    assert not any(mark in plain_text(unit.source) for unit in units for mark in hidden)
    for unit in units:
        for part in unit.source:
            is_word = isinstance(part, str) and part.isascii() and part.strip().isalnum()
            if is_word and b"[^1]:" not in data:
                assert part.strip() in seen


@given(st.text(st.sampled_from("ab*_`[]()!<>&;~#-=|:>.1 \n\t\\{}\r\"'/"), max_size=80))
def test_any_text_is_read_and_written(text):
    data = text.encode()
    check_round_trip(MarkdownDocument, data, "a.md")


@pytest.mark.slow
def test_hostile_files_take_linear_time():
    for piece in (
        "[",
        "*a ",
        "`" * 3 + "a",
        "<a ",
        "![",
        "> ",
        "* ",
        "_a_ ",
        "](",
        "&",
        "| ",
        "<!-- ",
    ):
        # The best of three: a collection of all garbage of the process may fall into one.
        durations = [
            min(_seconds_to_read(piece * count) for _ in range(3)) for count in (2_000, 8_000)
        ]
        assert durations[1] < 12 * durations[0] + 0.5, piece


@pytest.mark.parametrize(
    "text",
    [
        "# a" + " " * 50_000 + "b",
        "[a](" * 15_000,
        "[^" * 50_000,
        "x" + "<!--" * 20_000 + ">",
        "[" * 1_000 + "[a](b)" * 10_000,
        "<code>" * 8_000 + "*" + "</code>" * 8_000,
    ],
    ids=["heading", "link", "footnote", "comment", "brackets", "code"],
)
def test_a_long_hostile_paragraph_takes_linear_time(text):
    assert _seconds_to_read(text) < 3


def test_a_target_may_contain_parentheses_that_are_balanced():
    text = r"[a](b(c\)d)e) [f](\(g) [h](i(j) [k](l\ m) [n](<o p> 'q')"
    assert link_texts(text) == ["a", "f", "n"]
    rendered = MarkdownIt().parseInline(text)[0].children or []
    assert [token.type for token in rendered].count("link_open") == 3


def link_texts(text):
    (unit,) = MarkdownDocument(text.encode(), "a.md").units()
    parts = list(unit.source)
    pairs = itertools.pairwise(parts)
    return [inside for code, inside in pairs if isinstance(code, Code) and code.raw == "["]


def _seconds_to_read(text):
    start = time.process_time()
    list(MarkdownDocument(text.encode(), "a.md").units())
    return time.process_time() - start
