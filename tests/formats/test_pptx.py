"""PowerPoint presentations: units, line breaks, and what other programs read."""

from __future__ import annotations

import io

import pptx
import pytest

from dragoman.formats.pptx import PptxDocument
from support.document_checks import (
    check_round_trip,
    check_written,
    shown,
    upper_case,
)
from support.office_files import libreoffice_text


def presentation() -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "The title"
    frame = slide.placeholders[1].text_frame
    frame.text = "First point"
    run = frame.paragraphs[0].add_run()
    run.text = " in bold"
    run.font.bold = True
    frame.add_paragraph().text = "one\vtwo\tthree"
    slide.notes_slide.notes_text_frame.text = "A note"
    buffer = io.BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def test_the_units_of_a_presentation():
    units = check_round_trip(PptxDocument, presentation(), "a.pptx")
    texts = shown(units)
    expected = ["The title", 'First point[<a:rPr b="1"/>] in bold[</a:rPr>]', "one\ntwo\tthree"]
    assert texts[:3] == expected
    assert "A note" in texts
    assert "Click to edit Master title style" not in texts


def test_python_pptx_reads_what_is_written():
    written = check_written(PptxDocument, presentation(), "a.pptx", upper_case)
    slide = pptx.Presentation(io.BytesIO(written)).slides[0]
    assert slide.shapes.title.text == "THE TITLE"
    frame = slide.placeholders[1].text_frame
    assert frame.text == "FIRST POINT IN BOLD\nONE\vTWO\tTHREE"
    assert [run.font.bold for run in frame.paragraphs[0].runs] == [None, True]
    assert slide.notes_slide.notes_text_frame.text == "A NOTE"


@pytest.mark.slow
def test_libreoffice_opens_what_is_written(tmp_path):
    written = check_written(PptxDocument, presentation(), "a.pptx", upper_case)
    assert libreoffice_text(written, tmp_path, ".pptx", "pdf") == "pdf"
