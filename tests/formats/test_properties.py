"""Java properties: units, escapes, encodings, and an independent parser."""

from __future__ import annotations

import javaproperties
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base.document import Target, plain_text
from dragoman.formats.properties import Properties
from formats.made.properties import decoded, documents, is_equal
from support.document_checks import sources, translate, write_one
from support.shared_data import shared_data

FILE = r"""# License

# A greeting.
! {0} is a name.
greeting = Hello ''{0}'',\n\
           welcome\u0021
empty=
  spaced\ key: value = x \
"""


def test_values_are_units():
    units = list(Properties(FILE.encode(), "x.properties").units())
    assert [(unit.key, plain_text(unit.source), unit.line, unit.note) for unit in units] == [
        ("greeting", "Hello ''{0}'',\nwelcome!", 5, "A greeting.\n{0} is a name."),
        ("empty", "", 7, ""),
        ("spaced key", "value = x ", 8, ""),
    ]


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ("a=b", " c\t\\\n", r"a=\ c\t\\\n"),
        ("a b", "=c", r"a \=c"),
        ("a", "c", "a=c"),
        ("a=", "é😀", r"a=\u00e9\ud83d\ude00"),
        ("a = \\\n  b\\\n  c\nd=e", "f # g", "a = \\\n  f # g\nd=e"),
        ("a=b\r\nc=d", "\x00\x1b\u0085", "a=\\u0000\\u001b\\u0085\r\nc=d"),
    ],
)
def test_what_has_a_meaning_is_escaped(before, text, after):
    written = write_one(Properties, before.encode(), (text,))
    assert written == after.encode()
    assert sources(Properties, written)[0] == (text,)
    assert next(iter(javaproperties.loads(after).values())) == text


def test_the_encoding_is_detected_and_kept():
    text = "a=é\nb=c\n"
    for encoding, expected in (
        ("utf-8", "ö漢"),
        ("utf-8-sig", "ö漢"),
        ("iso-8859-1", r"ö\u6f22"),
        ("utf-16", "ö漢"),
    ):
        data = text.encode(encoding)
        assert sources(Properties, data) == [("é",), ("c",)]
        assert write_one(Properties, data, ("ö漢",), 1) == f"a=é\nb={expected}\n".encode(encoding)
    assert write_one(Properties, b"b=c", ("ö漢",)) == rb"b=\u00f6\u6f22"
    with pytest.raises(DataError, match=r"a translation for document contains '\\ud800'"):
        write_one(Properties, b"b=c", ("\ud800",))
    assert sources(Properties, rb"b=\ud800") == [("\ufffd",)]


def test_broken_escapes_are_refused_with_the_line():
    with pytest.raises(DataError, match=r"x\.properties is .* line 3 contains '\\\\u12g'"):
        list(Properties(b"# a\n\na=\\u12g", "x.properties").units())
    with pytest.raises(DataError, match="NUL character in line 2"):
        list(Properties(b"a\n\0", "x.properties").units())


def test_an_independent_parser_reads_the_samples_and_what_is_written():
    count = 0
    for path in sorted(shared_data().joinpath("formats/properties").glob("*.properties")):
        data = path.read_bytes()
        units = list(Properties(data, str(path)).units())
        expected = javaproperties.loads(decoded(data))
        assert {unit.key: plain_text(unit.source) for unit in units} == expected
        written = translate(Properties, data, lambda text: f" {text.upper()}=ß\n漢 ")
        assert written.isascii() or not data.isascii()
        assert javaproperties.loads(decoded(written)) == {
            key: f" {value.upper()}=ß\n漢 " for key, value in expected.items()
        }
        count += len(units)
    assert count > 500


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), st.text(st.characters(codec="utf-8"), max_size=10))
def test_an_independent_parser_reads_what_is_written(data, text):
    before = javaproperties.parse(decoded(data))
    values = [item.value for item in before if isinstance(item, javaproperties.KeyValue)]
    units = list(Properties(data, "x").units())
    halves = [
        value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for value in values
    ]
    assert [plain_text(unit.source) for unit in units] == halves
    written = b"".join(Properties(data, "x").write([Target((text,))] * len(units)))
    after = javaproperties.parse(decoded(written))
    assert [item.value for item in after if isinstance(item, javaproperties.KeyValue)] == [
        text
    ] * len(units)
    assert is_equal(data, written)
