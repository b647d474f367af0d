"""Plain text: one unit per line, and the same number of lines afterwards."""

from __future__ import annotations

import pytest

from dragoman.errors import DataError
from dragoman.formats.base.folder import find_format, formats
from dragoman.formats.text import Text
from support.document_checks import sources, translate, write_one
from support.shared_data import shared_data


def test_lines_are_units():
    data = "One.\r\n\r\n  Zwei\u2028\x0b\x85 \ntrois".encode()
    units = list(Text(data, "x.txt").units())
    assert [(unit.key, unit.line, unit.source) for unit in units] == [
        *(("1", 1, ("One.",)), ("2", 2, ())),
        *(("3", 3, ("  Zwei\u2028\x0b\x85 ",)), ("4", 4, ("trois",))),
    ]
    assert list(Text(b"", "x.txt").units()) == []


def test_a_translation_stays_in_its_line():
    assert write_one(Text, b"a\r\nb\r\n", ("x\ny\r\nz\r",)) == b"x y z \r\nb\r\n"
    assert write_one(Text, b"\xff\xfea\0", ("ü",)) == "\ufeffü".encode("utf-16-le")
    with pytest.raises(DataError, match=r"document contains '\\x00'"):
        write_one(Text, b"a", ("\0",))


def test_real_text_has_as_many_lines_afterwards():
    paths = sorted(shared_data().joinpath("formats/tmx/compliance-kit").glob("*.txt"))
    assert len(paths) == 3
    for path in paths:
        data = path.read_bytes()
        assert find_format(path, data) is formats()["text"]
        written = translate(Text, data, lambda text: f"{text}\n{text}")
        assert len(sources(Text, written)) == len(sources(Text, data))


def test_other_encodings_are_refused_with_the_line():
    with pytest.raises(DataError, match=r"x y\.txt is not UTF-8 in line 2.*0xE9.*\nType: iconv"):
        list(Text("a\né".encode("latin-1"), "x y.txt").units())
    with pytest.raises(DataError, match="is not UTF-16-LE in line 1"):
        list(Text(b"\xff\xfea", "x.txt").units())
