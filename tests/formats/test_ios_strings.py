"""Strings files of Apple: units, escapes, encodings, refusals, and translate-toolkit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translate.storage.properties import stringsutf8file

from dragoman.errors import DataError
from dragoman.formats.base.document import plain_text
from dragoman.formats.ios_strings import IosStrings
from support.document_checks import sources, translate, write_one

FILE = r"""/* Copyright */
/* A greeting
   of the user */
"greeting" = "Hello \"%@\"\n\U00e9\\";
plain='one; two' /* why */ ; // rest
"key only";
"""


def test_values_are_units():
    units = list(IosStrings(FILE.encode(), "x.strings").units())
    assert [(unit.key, plain_text(unit.source), unit.line, unit.note) for unit in units] == [
        ("greeting", 'Hello "%@"\né\\', 4, "A greeting\n   of the user"),
        ("plain", "one; two", 5, ""),
        ("key only", "key only", 6, "rest"),
    ]


def test_only_the_value_changes():
    written = write_one(IosStrings, FILE.encode(), ("\"\\\n\t\r'ü",))
    assert written.decode() == FILE.replace(r"Hello \"%@\"\n\U00e9\\", r"\"\\\n\t\r'ü")
    assert write_one(IosStrings, FILE.encode(), ("x",), 1).decode() == FILE.replace(
        "'one; two'", '"x"'
    )
    assert write_one(IosStrings, FILE.encode(), ("x",), 2).decode().endswith('"key only" = "x";\n')
    data = FILE.encode("utf-16")
    assert write_one(IosStrings, data, ("one; two",), 1) == data
    assert sources(IosStrings, write_one(IosStrings, data, ("ü",), 1))[1] == ("ü",)
    assert sources(IosStrings, rb'"a" = "\Ud83d\Ude00 \Ud83d \101 \351";') == [
        ("😀 \ufffd A \\351",)
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"a" = "b"\n"c" = "d";', 'line 2: found \'"c" = "d";\', expected ;'),
        ('"a" "b";', "line 1: found '\"b\";', expected = or ;"),
        ('"a" = ;', "line 1: found ';', expected a key, = and a value before ;"),
        ('"a" = "b"', "found the end of the file, expected ; after"),
        ('\n"a" = "b;', "line 2: found '\"b;', expected an entry"),
        ("{ a = b; }", "line 1: found '{ a = b; }'"),
        ("= b;", "expected a key"),
        ("/* open", "line 1: found '/* open'"),
    ],
)
def test_invalid_files_are_refused_with_the_line(content, message):
    with pytest.raises(DataError) as error:
        list(IosStrings(content.encode(), "x y.strings").units())
    assert message in str(error.value)
    assert "plutil -lint 'x y.strings'" in str(error.value)


# Not a backslash before a quote: translate-toolkit takes the quote for escaped.
WORD = st.sampled_from([*"aü漢\"'\n\t =;/%", "%@", "\\x", "/*", "*/", "//"])


@settings(max_examples=100)
@given(st.lists(st.lists(WORD, min_size=1).map("".join), min_size=1))
def test_translate_toolkit_reads_what_is_written(texts):
    data = "".join(f'/* {n} */\n"key {n}" = "value";\n' for n in range(len(texts))).encode()
    remaining = iter(texts)
    written = translate(IosStrings, data, lambda _: next(remaining))
    store = stringsutf8file.parsestring(written)
    assert [unit.source for unit in store.units if unit.name] == texts
