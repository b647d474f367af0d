"""Excel workbooks: units, headers of tables, and what other programs read."""

from __future__ import annotations

import io

import openpyxl
import pytest

from dragoman.formats.base.document import Target
from dragoman.formats.xlsx import XlsxDocument
from formats.made import xlsx as made
from support.document_checks import (
    check_round_trip,
    check_written,
    shown,
    upper_case,
)
from support.office_files import libreoffice_text, read_member


def workbook() -> bytes:
    book = openpyxl.Workbook()
    for row in (["Name", "Count"], ["Red apples", 3], ["a\nb <c>", "=SUM(B2:B2)"]):
        book.active.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_the_units_of_a_workbook():
    units = check_round_trip(XlsxDocument, workbook(), "a.xlsx")
    assert shown(units) == ["Name", "Count", "Red apples", "a\nb <c>"]
    strings = ["<t>A</t>", "<r><t>b </t></r><r><rPr><b/></rPr><t>c</t></r>"]
    units = check_round_trip(XlsxDocument, made.document(strings, table="A"), "a.xlsx")
    assert shown(units) == ["inline", "A", "b[<rPr><b/></rPr>]c[</rPr>]"]
    assert [unit.state for unit in units] == ["untranslated", "locked", "untranslated"]


def test_a_text_without_formatting_needs_no_run():
    data = made.document(["<t>A</t>"])
    written = b"".join(XlsxDocument(data, "a.xlsx").write([None, Target((" B & C",))]))
    assert read_member(written, "xl/sharedStrings.xml").endswith(
        b'<si><t xml:space="preserve"> B &amp; C</t></si></sst>'
    )


def test_openpyxl_reads_what_is_written():
    written = check_written(XlsxDocument, workbook(), "a.xlsx", upper_case)
    sheet = openpyxl.load_workbook(io.BytesIO(written)).active
    assert [[cell.value for cell in row] for row in sheet.rows] == [
        ["NAME", "COUNT"],
        ["RED APPLES", 3],
        ["A\nB <C>", "=SUM(B2:B2)"],
    ]


@pytest.mark.slow
def test_libreoffice_opens_what_is_written(tmp_path):
    written = check_written(XlsxDocument, workbook(), "a.xlsx", upper_case)
    text = libreoffice_text(written, tmp_path, ".xlsx", "csv:Text - txt - csv (StarCalc)")
    assert text == 'NAME,COUNT\nRED APPLES,3\n"A\nB <C>",3\n'
