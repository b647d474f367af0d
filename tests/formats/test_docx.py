"""Word documents: units, runs, and what other programs read in a translated document."""

from __future__ import annotations

import io

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Target, plain_text
from dragoman.formats.docx import DocxDocument
from formats.made import docx as made
from support.document_checks import (
    check_round_trip,
    check_written,
    contents,
    rotated,
    shown,
    upper_case,
)
from support.office_files import SAMPLES, libreoffice_text, member_names, read_member


def write(data: bytes, *targets: Target | None) -> bytes:
    return b"".join(DocxDocument(data, "a.docx").write(targets))


def test_the_units_of_a_document_of_libreoffice():
    data = (SAMPLES / "report.docx").read_bytes()
    units = check_round_trip(DocxDocument, data, "report.docx")
    assert shown(units)[:2] == [
        "Annual [<w:rPr><w:i/></w:rPr>]report[</w:rPr>]",
        "The [<w:rPr><w:b/></w:rPr>]quick[</w:rPr>] brown "
        '[<w:hyperlink r:id="rId2">][<w:rPr><w:rStyle w:val="InternetLink"/></w:rPr>]fox [</w:rPr>]'
        '[<w:rPr><w:rStyle w:val="InternetLink"/><w:i/></w:rPr>]jumps[</w:rPr>][</w:hyperlink>]'
        " over & under.\nSecond line.",
    ]
    assert [plain_text(unit.source) for unit in units][2:] == [
        "First item",
        "Second item",
        "Cell A",
        "Cell B",
        "A footnote here.",
        "1 The note text.",
    ]
    assert [unit.key for unit in units][6:] == ["word/document.xml#7", "word/footnotes.xml#1"]


def test_runs_are_merged_and_only_differences_are_codes():
    body = (
        '<w:p><w:pPr><w:jc w:val="left"/></w:pPr>'
        '<w:r w:rsidR="1"><w:rPr><w:lang w:val="en"/></w:rPr><w:t xml:space="preserve">One </w:t>'
        '</w:r><w:proofErr w:type="spellStart"/><w:r><w:t>two</w:t></w:r>'
        "<w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>"
        '<w:bookmarkEnd w:id="0"/><w:r><w:rPr><w:b/><w:noProof/></w:rPr><w:t>more</w:t></w:r></w:p>'
    )
    data = made.document(body)
    (unit,) = check_round_trip(DocxDocument, data, "a.docx")
    assert shown([unit]) == [
        'One two[<w:rPr><w:b/></w:rPr>]bold[<w:bookmarkEnd w:id="0"/>]more[</w:rPr>]'
    ]
    opening, mark, closing = (part for part in unit.source if isinstance(part, Code))
    written = write(data, Target((mark, opening, "A & B", closing, "\tC\nD")))
    paragraph = read_member(written, "word/document.xml").decode().split("<w:body>")[1]
    assert paragraph.startswith(
        '<w:p><w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkEnd w:id="0"/>'
        '<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">A &amp; B</w:t></w:r>'
        '<w:r><w:tab/><w:t xml:space="preserve">C</w:t><w:br/>'
        '<w:t xml:space="preserve">D</w:t></w:r></w:p>'
    )


def test_fields_deleted_text_and_text_boxes():
    field = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    body = (
        f"<w:p><w:r><w:t>Page </w:t></w:r>{field('begin')}"
        f"<w:r><w:instrText>PAGE</w:instrText></w:r>{field('separate')}<w:r><w:t>7</w:t></w:r>{field('end')}"
        '<w:del w:id="1"><w:r><w:delText>gone</w:delText></w:r></w:del>'
        f"{field('begin')}<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>{field('separate')}"
        f"<w:r><w:t>a link</w:t></w:r>{field('end')}"
        "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent>"
        "</w:pict></w:r></w:p>"
    )
    data = made.document(body)
    units = check_round_trip(DocxDocument, data, "a.docx")
    assert [plain_text(unit.source) for unit in units] == ["In a box", "Pagea link"]
    written = write(data, Target(("Kasten",)), Target(("Seite", *units[1].source[1:])))
    assert contents(DocxDocument(written, "a.docx"))[0] == ("Kasten",)
    text = read_member(written, "word/document.xml").decode()
    for part in ('<w:t xml:space="preserve">Kasten</w:t>', "PAGE", ">7<", "gone", "HYPERLINK x"):
        assert part in text
    assert "In a box" not in text


def test_only_changed_parts_are_compressed_anew():
    data = made.document("<w:p><w:r><w:t>a</w:t></w:r></w:p>", header1="<w:p/>")
    written = write(data, Target(("b",)))
    assert member_names(written) == member_names(data)
    for name in set(member_names(data)) - {"word/document.xml"}:
        assert read_member(written, name) == read_member(data, name)
    header = data.index(b"word/header1.xml") - 30
    size = data.index(b"docProps/app.xml") - 30 - header
    assert data[header : header + size] in written  # Header, date and compressed bytes.


def test_codes_that_do_not_nest_and_forbidden_characters_are_refused():
    data = made.document(
        "<w:p><w:r><w:t>a</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>b</w:t></w:r></w:p>"
    )
    text, opening, bold, closing = contents(DocxDocument(data, "a.docx"))[0]
    with pytest.raises(DataError, match=r"a\.docx/word/document\.xml do not nest"):
        write(data, Target((closing, text, bold, opening)))
    with pytest.raises(DataError, match=r"U\+0001, which XML does not allow"):
        write(data, Target(("\x01",)))
    with pytest.raises(DataError, match=r"a\.docx is not a valid zip file"):
        list(DocxDocument(b"\xd0\xcf\x11\xe0", "a.docx").units())


@pytest.mark.slow
@given(made.documents())
@settings(max_examples=25)
def test_moved_codes_give_a_valid_document(data):
    before = contents(DocxDocument(data, "a.docx"))
    moved = [rotated(0, content) for content in before]
    written = write(data, *map(Target, moved))
    after = contents(DocxDocument(written, "a.docx"))
    assert sorted(map(plain_text, after)) == sorted(map(plain_text, moved))


@pytest.mark.slow
@given(made.documents(), st.data())
@settings(max_examples=25)
def test_texts_survive(data, draw):
    allowed = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff")
    texts = st.text(st.one_of(allowed, st.sampled_from("\t\n\r")), min_size=1)

    def change(number, content):
        return tuple(
            part if isinstance(part, Code) else draw.draw(texts, f"text {number}")
            for part in content
        )

    check_written(DocxDocument, data, "a.docx", change)


def test_python_docx_reads_what_is_written():
    document = docx.Document()
    document.add_heading("The title", 1)
    paragraph = document.add_paragraph("Plain and ")
    paragraph.add_run("bold").bold = True
    document.add_table(1, 2).cell(0, 1).text = "A cell"
    document.sections[0].header.paragraphs[0].text = "The header"
    buffer = io.BytesIO()
    document.save(buffer)
    written = check_written(DocxDocument, buffer.getvalue(), "a.docx", upper_case)
    read = docx.Document(io.BytesIO(written))
    assert [one.text for one in read.paragraphs] == ["THE TITLE", "PLAIN AND BOLD"]
    assert [run.bold for run in read.paragraphs[1].runs] == [None, True]
    assert read.tables[0].cell(0, 1).text == "A CELL"
    assert read.sections[0].header.paragraphs[0].text == "THE HEADER"
    assert read.paragraphs[0].style.name == "Heading 1"


@pytest.mark.slow
def test_libreoffice_opens_what_is_written(tmp_path):
    data = (SAMPLES / "report.docx").read_bytes()
    written = check_written(DocxDocument, data, "report.docx", upper_case)
    before = libreoffice_text(data, tmp_path, ".docx")
    assert libreoffice_text(written, tmp_path, ".docx") == before.upper()
    assert libreoffice_text(written, tmp_path, ".docx", "pdf") == "pdf"
