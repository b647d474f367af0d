"""Qt Linguist files, checked against the Translate Toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from dragoman.errors import DataError
from dragoman.formats.base.document import Target, Unit
from dragoman.formats.base.folder import find_format
from dragoman.formats.qt_ts import QtTs
from formats.made import qt_ts as made

FILE = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" sourcelanguage="en">
<context>
    <name>MainWindow</name>
    <message>
        <location filename="../main.cpp" line="12"/>
        <source>&amp;Open &quot;file&quot;…</source>
        <comment>menu</comment>
        <translation>&amp;Öffnen</translation>
    </message>
    <message numerus="yes">
        <source>%n file(s)</source>
        <extracomment>In the status bar.</extracomment>
        <translation type="unfinished">
            <numerusform>%n Datei</numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Old</source>
        <translation type="vanished">Alt</translation>
    </message>
    <message id="close">
        <source>Close</source>
    </message>
</context>
</TS>
"""
DATA = FILE.encode()


def units(data: bytes) -> list[Unit]:
    return list(QtTs(data, "x.ts").units())


def write(*targets: Target | None, data: bytes = DATA, language: str = "") -> str:
    return b"".join(QtTs(data, "x.ts", "en", language).write(targets)).decode()


def test_units_plural_forms_and_states():
    assert [(u.key, u.line, u.source, u.target, u.state) for u in units(DATA)] == [
        ("MainWindow#1", 6, ('&Open "file"…',), ("&Öffnen",), "translated"),
        ("MainWindow#2[0]", 12, ("%n file(s)",), ("%n Datei",), "needs_review"),
        ("MainWindow#2[1]", 12, ("%n file(s)",), (), "untranslated"),
        ("close", 24, ("Close",), None, "untranslated"),
    ]
    assert units(DATA)[0].context == "MainWindow\nmenu"
    assert units(DATA)[1].note == "In the status bar."


def test_marks_are_set_and_cleared():
    output = write(Target(("ä<",)), None, None, None)
    assert '<translation type="unfinished">ä&lt;</translation>' in output
    output = write(None, Target(("a",), False), Target(("b",), False), Target(("c",)))
    assert (
        "<translation>\n            <numerusform>a</numerusform>\n            "
        "<numerusform>b</numerusform>" in output
    )
    assert (
        '<source>Close</source>\n        <translation type="unfinished">c</translation>' in output
    )
    assert [unit.state for unit in units(output.encode())] == [
        "translated",
        "translated",
        "translated",
        "needs_review",
    ]
    # One finished form does not finish the other.
    assert 'type="unfinished">\n' in write(None, Target(("a",), False), None, None)


def test_the_language_is_added_when_it_is_missing():
    assert write(*[None] * 4, language="pt-BR") == FILE
    output = write(Target(("x",)), None, None, None, language="pt-BR")
    assert '<TS version="2.1" sourcelanguage="en" language="pt_BR">' in output


def test_other_files_with_the_extension_are_refused():
    with pytest.raises(DataError, match=r"app\.ts has the extension \.ts, but its content is none"):
        find_format(Path("app.ts"), b"export const a = 1;\n")
    with pytest.raises(DataError, match=r"x\.ts begins with <tmx> in line 1, expected <TS>"):
        units(b"<tmx/>")


@pytest.mark.slow
@settings(max_examples=150)
@given(made.documents())
def test_nothing_but_translations_changes(data):
    document = QtTs(data, "x.ts", "en", "de")
    output = b"".join(document.write([Target(("new",)) for _ in document.units()]))
    assert made.is_equal(data, output)


def test_the_translate_toolkit_reads_the_written_targets():
    from translate.storage.ts2 import tsfile

    output = write(
        Target(("a & <b>\n",), False), Target(("b",)), Target(("c",)), Target(("“d”",), False)
    )
    store = tsfile.parsestring(output.encode())
    result = [(unit.source, unit.isfuzzy(), unit.target) for unit in store.units]
    assert result[0] == ('&Open "file"…', False, "a & <b>\n")
    assert (result[1][1], list(result[1][2].strings)) == (True, ["b", "c"])
    assert result[3] == ("Close", False, "“d”")
