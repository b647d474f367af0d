"""JSON and ARB: units, metadata, escapes, refusals, and the parser of the standard library."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base.document import Target, plain_text
from dragoman.formats.json import Json
from formats.made.json import decoded, documents, is_equal
from support.document_checks import sources, translate, write_one
from support.shared_data import shared_data

ARB = """{
  "@@locale": "en",
  "greeting": "Hello {name}",
  "@greeting": {
    "description": "On the first page",
    "placeholders": {"name": {"type": "String"}}
  },
  "menu": {"a.b": ["x", 1, {"": "y"}], "greeting": "nested"},
  "greeting": "again"
}
"""


def test_string_values_are_units_and_metadata_is_not():
    units = list(Json(ARB.encode(), "x.arb").units())
    assert [(unit.key, plain_text(unit.source), unit.line, unit.note) for unit in units] == [
        ("greeting", "Hello {name}", 3, "On the first page"),
        ('menu["a.b"][0]', "x", 8, ""),
        ('menu["a.b"][2][""]', "y", 8, ""),
        ("menu.greeting", "nested", 8, ""),
        ("greeting", "again", 9, "On the first page"),
    ]
    assert [unit.key for unit in Json(b'"text"', "x.json").units()] == ["$"]
    dotted = b'{"a.b": "x", "@a.b": {"description": "of x"}}'
    assert [(unit.key, unit.note) for unit in Json(dotted, "x.arb").units()] == [
        ('["a.b"]', "of x")
    ]


def test_the_form_of_escapes_is_kept():
    assert write_one(Json, b'["a"]', ('ü"\\\n\x01😀',)) == '["ü\\"\\\\\\n\\u0001😀"]'.encode()
    ascii_file = rb'["\u00e4", "\n"]'
    assert sources(Json, ascii_file) == [("ä",), ("\n",)]
    assert write_one(Json, ascii_file, ("ü😀",)) == rb'["\u00fc\ud83d\ude00", "\n"]'
    assert write_one(Json, ascii_file, ("ä",)) == ascii_file
    assert sources(Json, rb'["\ud83d\ude00", "\ud83d", "\/"]') == [("😀",), ("\ufffd",), ("/",)]
    with pytest.raises(DataError, match=r"a translation for document contains '\\ud800'"):
        write_one(Json, ascii_file, ("\ud800",))
    assert write_one(Json, '["ä"]'.encode("utf-16"), ("ü",)) == '["ü"]'.encode("utf-16")


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("", "line 1, column 1: found the end of the file, expected value"),
        ('{"a": "b",}', "line 1, column 11: found '}', expected name"),
        ('{\n"a" "b"}', "line 2, column 5: found '\"b\"}', expected :"),
        ("[1 2]", "column 4: found '2]', expected , or ]"),
        ("[01]", "column 3: found '1]', expected , or ]"),
        ('["a\nb"]', "column 2: found '\"a', expected value or ]"),
        (r'["\x"]', "expected value or ]"),
        ("[NaN]", "found 'NaN]', expected value or ]"),
        ("[1]]", "column 4: found ']', expected the end"),
        ("// c\n[]", "found '// c', expected value"),
        ('{"a": [}', "found '}', expected value or ]"),
        ("{1: 2}", "expected name or }"),
    ],
)
def test_invalid_json_is_refused_with_line_and_column(content, where):
    if content != "[NaN]":  # The standard library accepts it; JSON does not.
        with pytest.raises(json.JSONDecodeError):
            json.loads(content)
    with pytest.raises(DataError) as error:
        list(Json(content.encode(), "x y.json").units())
    assert where in str(error.value)
    assert "type: python -m json.tool 'x y.json'" in str(error.value)


def test_deep_nesting_is_refused_in_little_memory():
    tracemalloc.start()
    with pytest.raises(DataError, match="nests deeper than 200 levels in line 1"):
        list(Json(b"[" * 1_000_000, "x.json").units())
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_the_standard_library_reads_the_same_values_of_all_samples():
    count = 0
    for path in sorted(shared_data().joinpath("formats/json").glob("*.json")):
        data = path.read_bytes()
        expected = {
            key: value for key, value in json.loads(data).items() if not key.startswith("@")
        }
        units = list(Json(data, str(path)).units())
        assert {unit.key: plain_text(unit.source) for unit in units} == expected
        written = translate(Json, data, lambda text: f'{text}\n"ü"\\')
        assert is_equal(data, written)
        count += len(units)
    assert count > 150


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), st.text(st.characters(codec="utf-8"), max_size=10))
def test_the_standard_library_reads_what_is_written(data, text):
    units = list(Json(data, "x").units())

    def strings(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        if isinstance(value, tuple):
            return [
                text for name, item in value if not name.startswith("@") for text in strings(item)
            ]
        return [text for item in value for text in strings(item)] if isinstance(value, list) else []

    def values(content: bytes) -> list[str]:
        return strings(json.loads(decoded(content), object_pairs_hook=tuple))

    assert [plain_text(unit.source) for unit in units] == values(data)
    written = b"".join(Json(data, "x").write([Target((text,))] * len(units)))
    assert values(written) == [text] * len(units)
    assert is_equal(data, written)
