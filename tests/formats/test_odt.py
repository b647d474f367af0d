"""OpenDocument texts: units, whitespace, and what LibreOffice reads in a translated document."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Target
from dragoman.formats.odt import OdtDocument
from formats.made import odt as made
from support.document_checks import (
    check_round_trip,
    check_written,
    contents,
    shown,
    upper_case,
)
from support.office_files import SAMPLES, libreoffice_text, make_zip, read_member


def write(data: bytes, *targets: Target | None) -> bytes:
    return b"".join(OdtDocument(data, "a.odt").write(targets))


def test_the_units_of_a_document_of_libreoffice():
    data = (SAMPLES / "report.odt").read_bytes()
    units = check_round_trip(OdtDocument, data, "report.odt")
    texts = shown(units)
    assert texts[0] == 'Annual [<text:span text:style-name="T1">]report[</text:span>]'
    assert texts[1].startswith('The [<text:span text:style-name="T2">]quick[</text:span>] brown ')
    assert texts[1].endswith("over & under.\nSecond line.")
    assert texts[6].endswith("[</text:a>] The note text.")
    assert texts[7].startswith('A footnote[<text:span text:style-name="T4">][<text:note text:id=')
    assert len(units) == 8


def test_a_note_and_the_paragraph_around_it_are_written():
    note = (
        '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>'
        "<text:note-body><text:p>{}</text:p></text:note-body></text:note>"
    ).format
    data = made.document(f"<text:p>One{note('first')} two{note('second')}.</text:p>")
    first, second, (one, code, two, other, end) = contents(OdtDocument(data, "a.odt"))
    assert (first, second) == (("first",), ("second",))
    assert code != other
    written = write(data, Target(("ERSTE",)), None, Target((other, two, code, one, end)))
    expected = f"<text:p>{note('second')}<text:s/>two{note('ERSTE')}One.</text:p>"
    assert expected.encode() in read_member(written, "content.xml")
    written = write(data, None, Target(("ZWEITE",)), None)
    expected = f"<text:p>One{note('first')} two{note('ZWEITE')}.</text:p>"
    assert expected.encode() in read_member(written, "content.xml")


def test_whitespace_is_read_and_written_as_elements():
    data = made.document('<text:p>\n  a\n  b<text:s text:c="2"/>c<text:tab/>d </text:p>')
    assert contents(OdtDocument(data, "a.odt")) == [("a b  c\td ",)]
    written = read_member(write(data, Target((" x   y\n\tz ",))), "content.xml")
    assert (
        b'<text:p><text:s/>x <text:s text:c="2"/>y<text:line-break/><text:tab/>z<text:s/></text:p>'
    ) in written


def test_a_number_of_spaces_that_is_too_large_is_cut():
    for count in ("99999", "9" * 5000):
        data = made.document(f'<text:p>a<text:s text:c="{count}"/>b</text:p>')
        assert contents(OdtDocument(data, "a.odt")) == [(f"a{' ' * 10_000}b",)]


def test_what_is_not_such_a_document_is_refused():
    with pytest.raises(DataError, match=r"a\.odt is a zip file, but no ODT document"):
        list(OdtDocument(make_zip({"a": "b"}), "a.odt").units())
    manifest = "<m><encryption-data/></m>"
    data = make_zip({"content.xml": "x", "META-INF/manifest.xml": manifest})
    with pytest.raises(DataError, match=r"a\.odt is encrypted"):
        list(OdtDocument(data, "a.odt").units())
    data = make_zip({"content.xml": "<a>\n<b></a>"})
    with pytest.raises(DataError, match=r"a\.odt/content\.xml is not well-formed XML in line 2"):
        list(OdtDocument(data, "a.odt").units())


@pytest.mark.slow
@given(made.documents(), st.data())
@settings(max_examples=25)
def test_texts_survive(data, draw):
    allowed = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff")
    texts = st.text(st.one_of(allowed, st.sampled_from("  \t\n\r")), min_size=1)

    def change(number, content):
        return tuple(
            part if isinstance(part, Code) else draw.draw(texts, f"text {number}")
            for part in content
        )

    check_written(OdtDocument, data, "a.odt", change)


@pytest.mark.slow
def test_libreoffice_opens_what_is_written(tmp_path):
    data = (SAMPLES / "report.odt").read_bytes()
    written = check_written(OdtDocument, data, "report.odt", upper_case)
    before = libreoffice_text(data, tmp_path, ".odt")
    assert libreoffice_text(written, tmp_path, ".odt") == before.upper()
    spaced = write(data, Target(("  a   b\n\tc ",)), *[None] * 7)
    assert "  a   b\n\tc " in libreoffice_text(spaced, tmp_path, ".odt")
